// How calls of holdfast.hpp fail: `error`, which is thrown, and `result`, which the try_ forms return.
#ifndef HOLDFAST_ERROR_HPP
#define HOLDFAST_ERROR_HPP

#include <holdfast_sets.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace holdfast
{

// The codes of holdfast.h, which says what each means.
enum class errc {
    invalid_argument = HF_EINVAL,
    bad_name = HF_ENAME,
    bad_ttl = HF_ETTL,
    not_permitted = HF_EPERM,
    busy = HF_EBUSY,
    timed_out = HF_ETIMEDOUT,
    canceled = HF_ECANCELED,
    pending = HF_EPENDING,
    interrupted = HF_EINTR,
    deadlock = HF_EDEADLK,
    no_agent = HF_ENOAGENT,
    agent_going = HF_ESHUTDOWN,
    no_quorum = HF_ENOQUORUM,
    other_fleet = HF_EFLEET,
    full = HF_EFULL,
    limit = HF_ELIMIT,
    version = HF_EVERSION,
    time_namespace = HF_ETIMENS,
    protocol = HF_EPROTO,
    bad_table = HF_ETABLE,
    drained = HF_EDRAINED,
    lost = HF_ELOST,
    not_held = HF_ENOTHELD,
    forked = HF_EFORKED,
    no_memory = HF_ENOMEM,
    system = HF_ESYS
};

namespace detail
{

class status_category final : public std::error_category
{
  public:
    const char *name() const noexcept override { return "holdfast"; }
    std::string message(int status) const override { return hf_strerror(status); }
    // So that `e.code() == std::errc::timed_out` is as true as with the standard library's locks.
    std::error_condition default_error_condition(int status) const noexcept override
    {
        switch (status) {
        case HF_EINVAL:
            return std::errc::invalid_argument;
        case HF_EPERM:
            return std::errc::operation_not_permitted;
        case HF_EBUSY:
            return std::errc::device_or_resource_busy;
        case HF_ETIMEDOUT:
            return std::errc::timed_out;
        case HF_ECANCELED:
            return std::errc::operation_canceled;
        case HF_EDEADLK:
            return std::errc::resource_deadlock_would_occur;
        case HF_EINTR:
            return std::errc::interrupted;
        case HF_ENOMEM:
            return std::errc::not_enough_memory;
        default:
            return std::error_condition(status, *this);
        }
    }
};

} // namespace detail

inline const std::error_category &category() noexcept
{
    static const detail::status_category the_one;
    return the_one;
}

inline std::error_code make_error_code(errc code) noexcept
{
    return std::error_code(static_cast<int>(code), category());
}

// code() is one of errc, and what() the library's sentence, with names and numbers.
class error : public std::system_error
{
  public:
    error(int status, const std::string &message)
        : std::system_error(status, category()),
          details_(std::make_shared<details>(details{message, std::nullopt, std::nullopt}))
    {
    }

    // The failure of the last call of this thread. `number`: errno after HF_ESYS.
    static error last(int status, int number = errno)
    {
        error made(status, hf_last_message());
        details &more = *made.details_;
        hf_holder holder = HF_HOLDER_INIT;

        if (status == HF_ESYS)
            more.message += std::string(": ") + std::strerror(number);
        if ((status == HF_EBUSY || status == HF_ETIMEDOUT) && hf_conflict(&holder) == HF_OK)
            more.holder = holder;
        if (int index = hf_conflict_index(); index >= 0)
            more.index = index;
        return made;
    }

    const char *what() const noexcept override { return details_->message.c_str(); }
    // After busy and timed_out: who has the lock; nullptr when that is not known.
    const hf_holder *holder() const noexcept
    {
        return details_->holder ? &*details_->holder : nullptr;
    }
    // Of several names or slots: which one was not free.
    std::optional<int> index() const noexcept { return details_->index; }

  private:
    struct details {
        std::string message;
        std::optional<hf_holder> holder;
        std::optional<int> index;
    };
    std::shared_ptr<details> details_; // an exception is copied without failing
};

// When its hold began, by its host's wall clock; nullopt when that is not known.
inline std::optional<std::chrono::system_clock::time_point> since(const hf_holder &holder)
{
    if (!holder.since_wall_ms)
        return std::nullopt;
    return std::chrono::system_clock::time_point(std::chrono::milliseconds(holder.since_wall_ms));
}

// A value, or the error for which there is none. Using a value that is not there throws the error.
template <class T> class [[nodiscard]] result
{
  public:
    result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
    result(holdfast::error failure) : content_(std::in_place_index<1>, std::move(failure)) {}

    bool has_value() const noexcept { return content_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    T &value() & { return must(); }
    T &&value() && { return std::move(must()); }
    T &operator*() & { return must(); }
    T &&operator*() && { return std::move(must()); }
    T *operator->() { return &must(); }

    // The code of the failure; 0 with a value.
    std::error_code code() const noexcept
    {
        const holdfast::error *failure = std::get_if<1>(&content_);
        return failure ? failure->code() : std::error_code();
    }
    // Only without a value.
    const holdfast::error &error() const { return std::get<1>(content_); }

  private:
    T &must()
    {
        if (const holdfast::error *failure = std::get_if<1>(&content_))
            throw *failure;
        return std::get<0>(content_);
    }
    std::variant<T, holdfast::error> content_;
};

} // namespace holdfast

namespace std
{
template <> struct is_error_code_enum<holdfast::errc> : true_type {
};
} // namespace std

#endif

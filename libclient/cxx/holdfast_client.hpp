// What holdfast.hpp stands on: times, what an acquire asks for, and the session with an agent.
#ifndef HOLDFAST_CLIENT_HPP
#define HOLDFAST_CLIENT_HPP

#include "holdfast_error.hpp"

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <string_view>

namespace holdfast
{

// CLOCK_BOOTTIME, by which leases end: it goes on while the host is suspended.
struct boot_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<boot_clock>;
    static constexpr bool is_steady = true;

    static time_point now() noexcept
    {
        timespec time{};
        clock_gettime(CLOCK_BOOTTIME, &time);
        return time_point(std::chrono::seconds(time.tv_sec) +
                          std::chrono::nanoseconds(time.tv_nsec));
    }
};

// As a wait: without limit.
inline constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

// A function that throws nothing, and says so: it is called from C.
template <class... Args> class callback
{
  public:
    callback() = default;
    template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, callback>>>
    callback(F &&function) : function_(std::forward<F>(function))
    {
        static_assert(std::is_nothrow_invocable_v<std::decay_t<F> &, Args...>,
                      "it is called from C, through which nothing can be thrown: make it noexcept");
    }
    explicit operator bool() const noexcept { return static_cast<bool>(function_); }
    void operator()(Args... args) const noexcept { function_(args...); }

  private:
    std::function<void(Args...)> function_;
};

using progress_callback = callback<const hf_progress &>;

// What an acquire asks for, beside name and wait; struct hf_acquire_options says more.
struct options {
    std::chrono::milliseconds ttl{0};       // 0: the agent's default
    std::chrono::milliseconds max_hold{0};  // 0: no limit
    std::chrono::milliseconds heartbeat{0}; // lose it after so long without beat(); 0: none
    std::string note;                       // up to 127 bytes for people to read
    progress_callback progress;             // called in the waiting thread
};

enum class state {
    held = HF_STATE_HELD,
    late = HF_STATE_LATE,     // held, but renewals are failing
    losing = HF_STATE_LOSING, // held, but it will be lost: stop now
    lost = HF_STATE_LOST,
    released = HF_STATE_RELEASED
};

// In one word.
inline const char *to_string(state now) noexcept
{
    switch (now) {
    case state::held:
        return "held";
    case state::late:
        return "late";
    case state::losing:
        return "losing";
    case state::lost:
        return "lost";
    case state::released:
        return "released";
    }
    return "unknown";
}
template <class Traits>
std::basic_ostream<char, Traits> &operator<<(std::basic_ostream<char, Traits> &out, state now)
{
    return out << to_string(now);
}

using change_callback = callback<state>;

namespace detail
{

// Of a call's result; a failure is a forked child's.
inline state state_of(int code) noexcept
{
    return code < 0 ? state::lost : static_cast<state>(code);
}
inline bool must_stop(state now) noexcept
{
    return now != state::held && now != state::late;
}

using handle =
    std::shared_ptr<hf_client>; // leases keep their client: whichever goes last disconnects

// -1: no limit. Part of a millisecond is waited for, too.
template <class Rep, class Period>
std::int64_t wait_ms(std::chrono::duration<Rep, Period> wait) noexcept
{
    if (wait <= wait.zero())
        return 0;
    if (wait >= std::chrono::hours(24 * 36525))
        return -1;
    return std::chrono::ceil<std::chrono::milliseconds>(wait).count();
}

inline std::uint32_t span_ms(std::chrono::milliseconds span, const char *what)
{
    if (span.count() < 0 || span.count() > std::numeric_limits<std::uint32_t>::max())
        throw error(HF_EINVAL, std::string(what) + " is " + std::to_string(span.count()) +
                                   " ms; 0 to 4294967295 ms are possible");
    return static_cast<std::uint32_t>(span.count());
}

// The options as the library wants them. They are good as long as this and `wanted`.
class request
{
  public:
    request(std::string_view name, std::int64_t wait, const options &wanted)
        : name_(name), progress_(wanted.progress)
    {
        c_.name = name_.data();
        c_.name_len = name_.size();
        c_.wait_ms = wait;
        c_.ttl_ms = span_ms(wanted.ttl, "ttl");
        c_.max_hold_ms = span_ms(wanted.max_hold, "max_hold");
        c_.heartbeat_ms = span_ms(wanted.heartbeat, "heartbeat");
        c_.note = wanted.note.empty() ? nullptr : wanted.note.c_str();
        if (progress_) {
            c_.progress = report;
            c_.arg = this;
        }
    }
    request(const request &) = delete;
    request &operator=(const request &) = delete;

    hf_acquire_options *c() noexcept { return &c_; }
    // Once the library has it no more.
    std::string take_name() noexcept { return std::move(name_); }
    // The names of a set are given beside the options.
    void without_name() noexcept
    {
        c_.name = nullptr;
        c_.name_len = 0;
    }

  private:
    static void report(const hf_progress *progress, void *arg)
    {
        static_cast<request *>(arg)->progress_(*progress);
    }

    std::string name_;
    hf_acquire_options c_ = HF_ACQUIRE_OPTIONS_INIT;
    progress_callback progress_;
};

// Runs `call`, and returns what it returns or the error that it throws.
template <class Call> auto caught(Call call) -> result<decltype(call())>
{
    try {
        return call();
    } catch (const error &failure) {
        return failure;
    }
}

struct access; // for the other headers
} // namespace detail

// A session with one agent. Leases and pending acquires keep what they need of it: they may outlive it.
class client
{
  public:
    // As hf_connect(): `agent` is a name or the path of a socket; "": $HOLDFAST_AGENT, else "default".
    explicit client(const std::string &agent = "") { open(hf_connect, agent); }
    client(client &&) noexcept = default;
    client &operator=(client &&) noexcept = default;

    static result<client> try_connect(const std::string &agent = "")
    {
        return detail::caught([&] { return client(agent); });
    }
    // As hf_connect_start(): the client may be used once ready() has returned true.
    static client start(const std::string &agent = "")
    {
        client made{detail::handle()};
        made.open(hf_connect_start, agent);
        return made;
    }
    bool ready()
    {
        int status = hf_connect_result(c());

        if (status != HF_OK && status != HF_EPENDING)
            throw error::last(status);
        return status == HF_OK;
    }

    // For event loops: readable when dispatch() has something to do. Only poll it.
    int fd()
    {
        int fd = hf_fd(c());

        if (fd < 0)
            throw error::last(fd);
        return fd;
    }
    // Does what is due and runs callbacks; never blocks.
    void dispatch()
    {
        if (int status = hf_dispatch(c()); status < 0)
            throw error::last(status);
    }

    // The agent as it is now.
    struct hf_agent_info info()
    {
        struct hf_agent_info info = HF_AGENT_INFO_INIT;

        if (int status = hf_agent_info(c(), &info); status < 0)
            throw error::last(status);
        return info;
    }

    // For calls of holdfast.h; the client keeps it. nullptr: this was moved from.
    hf_client *c() const noexcept { return handle_.get(); }

  private:
    friend struct detail::access;
    explicit client(detail::handle handle) noexcept : handle_(std::move(handle)) {}

    void open(int (*call)(const char *, hf_client **), const std::string &agent)
    {
        hf_client *made = nullptr;

        if (int status = call(agent.empty() ? nullptr : agent.c_str(), &made); status < 0)
            throw error::last(status);
        handle_.reset(made, hf_disconnect);
    }

    detail::handle handle_;
};

} // namespace holdfast

#endif

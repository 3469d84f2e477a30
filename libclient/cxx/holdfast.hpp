// Holdfast for C++17: a lock that is held as long as its object lives.
//
//     holdfast::client client;                       // the default agent; throws holdfast::error
//     holdfast::lease lease(client, "db/migrate");   // waits for the lock
//     while (work_left() && lease.held())
//         do_a_little_work(lease.fence());
//     // released here, also when an exception leaves the scope
//
// Header-only, over libholdfast: link with `pkg-config --libs holdfast`. holdfast_sets.hpp has several locks
// at once, and counted ones; holdfast_shared.hpp has shared and exclusive ones; holdfast_mutex.hpp has locks for std::unique_lock. What holdfast.h says of
// threads, signals and fork holds here, too.
//
// Failures. Constructors and the plain calls throw holdfast::error; try_ forms return a result instead.
// Destructors throw nothing. Memory that is used up throws std::bad_alloc anywhere but in them.
//
// A lease can be lost. Ask held() before each step, and pass fence() to everything that can compare it: a lock
// whose validity has ended does not stop the thread that had it.
//
// Objects may be moved, not copied; one that was moved from is empty and holds nothing. An object is for one
// thread at a time, but any thread may call the const and noexcept members of a lease meanwhile.
#ifndef HOLDFAST_HPP
#define HOLDFAST_HPP

#include "holdfast_client.hpp"

#include <mutex>
#include <vector>

namespace holdfast
{

class lease;
template <class T> class pending;

// Tries once. When another holds the lock, code() is errc::busy, and error().holder() tells who.
result<lease> try_acquire(const client &client, std::string_view name, const options &wanted = {});
// The same with a wait; code() is errc::timed_out when it is over.
template <class Rep, class Period>
result<lease> try_acquire_for(const client &client, std::string_view name,
                              std::chrono::duration<Rep, Period> wait, const options &wanted = {});

namespace detail
{
struct access { // for these headers
    static const handle &of(const client &client) noexcept { return client.handle_; }
    static client share(const client &shared) noexcept { return client(shared.handle_); }
    template <class T>
    static T make(const handle &client, request &asked, std::vector<hf_lease *> granted) noexcept
    {
        return T(client, asked, std::move(granted));
    }
    // `call` makes the leases.
    template <class T, class Call>
    static T acquire(const client &client, request &asked, std::size_t count, Call call)
    {
        std::vector<hf_lease *> room(count);

        if (int status = call(client.c(), asked.c(), room.data()); status < 0)
            throw error::last(status);
        return make<T>(of(client), asked, std::move(room));
    }
    template <class T, class Call>
    static pending<T> start(const client &client, std::unique_ptr<request> asked, std::size_t count,
                            Call call)
    {
        pending<T> made(of(client), std::move(asked), count);

        if (int status = call(client.c(), made.request_->c(), &made.op_); status < 0)
            throw error::last(status);
        return made;
    }
    // Nothing when another holds it.
    template <class T> static T unless_held(result<T> tried)
    {
        if (tried.code() == errc::busy || tried.code() == errc::timed_out)
            return {};
        return std::move(tried).value();
    }
};

// Of std::try_to_lock alone: a plain parameter of its type would take `{}`, too, which is for options.
template <class Try> using if_try = std::enable_if_t<std::is_same_v<Try, std::try_to_lock_t>>;

// An acquire of one lock that waits.
lease acquire(const client &client, std::string_view name, std::int64_t wait,
              const options &wanted);
} // namespace detail

// One lock that is held, or nothing. Its destructor releases it as release() does.
class lease
{
  public:
    lease() = default;
    // Waits for the lock without limit.
    lease(const client &client, std::string_view name, const options &wanted = {})
        : lease(detail::acquire(client, name, -1, wanted))
    {
    }
    // As with std::unique_lock, empty when another holds the lock (until the wait is over); every other failure is thrown.
    template <class Try, class = detail::if_try<Try>>
    lease(const client &client, std::string_view name, Try, const options &wanted = {})
        : lease(detail::access::unless_held(try_acquire(client, name, wanted)))
    {
    }
    template <class Rep, class Period>
    lease(const client &client, std::string_view name, std::chrono::duration<Rep, Period> wait,
          const options &wanted = {})
        : lease(detail::access::unless_held(try_acquire_for(client, name, wait, wanted)))
    {
    }

    lease(lease &&other) noexcept
        : client_(std::move(other.client_)), c_(std::exchange(other.c_, nullptr)),
          name_(std::exchange(other.name_, {})), change_(std::move(other.change_))
    {
    }
    // What was held before is released.
    lease &operator=(lease &&other) noexcept
    {
        lease taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~lease()
    {
        if (c_)
            (void)hf_release(c_);
    }
    void swap(lease &other) noexcept
    {
        client_.swap(other.client_);
        std::swap(c_, other.c_);
        name_.swap(other.name_);
        change_.swap(other.change_);
    }

    // As it was asked for, without the number of a slot; "" when empty.
    const std::string &name() const noexcept { return name_; }
    // True while it is held: one load and one clock read. Once false it stays false; in a forked child it is false.
    bool held() const noexcept { return hf_held(c_) != 0; }
    explicit operator bool() const noexcept { return held(); }
    // Rises with every grant of the name, on all hosts; kept after a loss; 0 when empty.
    std::uint64_t fence() const noexcept { return hf_fence(c_); }
    // Until the validity ends, if nothing renews it; 0 when not held.
    std::chrono::milliseconds remaining() const noexcept
    {
        return std::chrono::milliseconds(hf_remaining_ms(c_));
    }
    // When the validity ends; the clock's epoch when not held. Renewals move it later.
    boot_clock::time_point valid_until() const noexcept
    {
        return boot_clock::time_point(std::chrono::nanoseconds(hf_valid_until_ns(c_)));
    }
    // Empty: released. In a forked child: lost.
    holdfast::state state() const noexcept
    {
        return c_ ? detail::state_of(hf_state(c_)) : state::released;
    }
    // True when it is losing or over: whoever asks this between the steps of his work stops in time.
    bool must_stop() const noexcept { return detail::must_stop(state()); }
    // Why it is losing or lost; "" otherwise.
    const char *reason() const noexcept { return c_ ? hf_reason(c_) : ""; }
    // The number of its slot, when it is a slot of a counted lock.
    std::optional<int> slot() const noexcept
    {
        int number = c_ ? hf_slot_number(c_) : HF_ENOTHELD;
        return number < 0 ? std::nullopt : std::optional<int>(number);
    }
    // Shows progress, for a lease with a heartbeat. True: the agent has restarted; call the client's dispatch().
    bool beat() const noexcept { return hf_beat(c_) != 0; }

    // Sleeps until the state is another than `from`; returns the state, which is still `from` when the time is over.
    template <class Rep, class Period>
    holdfast::state wait_while(holdfast::state from,
                               std::chrono::duration<Rep, Period> timeout) const
    {
        int now = c_ ? hf_wait(c_, static_cast<int>(from), detail::wait_ms(timeout))
                     : static_cast<int>(state::released);

        if (now == HF_EINTR)
            throw error::last(now);
        return now == HF_ETIMEDOUT ? from : detail::state_of(now);
    }

    // The client's dispatch() calls it after each change of the state. It must not end or move this lease, nor call on_change().
    // `{}` turns it off. Throws errc::invalid_argument for an empty lease, errc::forked in a forked child.
    void on_change(change_callback wanted)
    {
        auto kept = std::make_unique<change_callback>(std::move(wanted));

        if (int status = hf_on_change(c_, *kept ? call_change : nullptr, kept.get()); status < 0)
            throw error::last(status);
        change_.swap(kept);
    }

    // Gives the lock back and waits for the agent's answer, at most until a second after the validity. Throws
    // when the lease had been lost before (errc::lost), or no answer came: the lock then ends by its TTL. The
    // lease is empty in every case.
    void release()
    {
        int status = hf_release(std::exchange(c_, nullptr));

        if (status < 0) {
            error failure = error::last(status); // before anything else is called
            clear();
            throw failure;
        }
        clear();
    }
    // The same without waiting for the answer. False: it is known to have been over before.
    bool release_soon() noexcept
    {
        hf_op *op = nullptr;
        int status = c_ ? hf_release_start(std::exchange(c_, nullptr), &op) : HF_ENOTHELD;

        hf_op_cancel(op); // which does not undo the release
        clear();
        return status == HF_OK;
    }

    // For calls of holdfast.h that do not end it.
    hf_lease *c() const noexcept { return c_; }

  private:
    friend struct detail::access;
    lease(detail::handle client, detail::request &asked,
          const std::vector<hf_lease *> &granted) noexcept
        : client_(std::move(client)), c_(granted.front()), name_(asked.take_name())
    {
    }

    void clear() noexcept
    {
        change_.reset();
        name_.clear();
        client_.reset();
    }
    static void call_change(hf_lease *, int code, void *arg)
    {
        (*static_cast<change_callback *>(arg))(detail::state_of(code));
    }

    detail::handle client_;
    hf_lease *c_ = nullptr;
    std::string name_;
    std::unique_ptr<change_callback> change_; // at an address that moves do not change
};

inline lease detail::acquire(const client &client, std::string_view name, std::int64_t wait,
                             const options &wanted)
{
    request asked(name, wait, wanted);

    return access::acquire<lease>(client, asked, 1, hf_acquire_with);
}

inline result<lease> try_acquire(const client &client, std::string_view name, const options &wanted)
{
    return detail::caught([&] { return detail::acquire(client, name, 0, wanted); });
}

template <class Rep, class Period>
result<lease> try_acquire_for(const client &client, std::string_view name,
                              std::chrono::duration<Rep, Period> wait, const options &wanted)
{
    return detail::caught(
        [&] { return detail::acquire(client, name, detail::wait_ms(wait), wanted); });
}

// An acquire that was started without waiting for it, for event loops: when the client's fd() is readable, call its
// dispatch() and then get(). The destructor calls the acquire off. T is what is acquired.
template <class T> class pending
{
  public:
    pending(pending &&other) noexcept
        : client_(std::move(other.client_)), request_(std::move(other.request_)),
          room_(std::move(other.room_)), op_(std::exchange(other.op_, nullptr))
    {
    }
    pending &operator=(pending &&other) noexcept
    {
        pending taken(std::move(other));
        client_.swap(taken.client_);
        request_.swap(taken.request_);
        room_.swap(taken.room_);
        std::swap(op_, taken.op_);
        return *this;
    }
    ~pending() { hf_op_cancel(op_); }

    // nullopt while undecided. Throws a failure, and errc::not_held once it has told what came of it.
    std::optional<T> get()
    {
        int status;

        if (!op_)
            throw error(HF_ENOTHELD, "this acquire was decided before, or moved elsewhere");
        status = hf_op_result(op_, room_.data());
        if (status == HF_EPENDING)
            return std::nullopt;
        op_ = nullptr; // the library has freed it
        if (status < 0)
            throw error::last(status);
        return detail::access::make<T>(client_, *request_, std::move(room_));
    }
    std::optional<result<T>> try_get()
    {
        try {
            std::optional<T> got = get();
            return got ? std::optional<result<T>>(std::move(*got)) : std::nullopt;
        } catch (const error &failure) {
            return result<T>(failure);
        }
    }

  private:
    friend struct detail::access;
    // Before the acquire is started: what it needs is there, so that nothing can fail once it runs.
    pending(detail::handle client, std::unique_ptr<detail::request> asked, std::size_t count)
        : client_(std::move(client)), request_(std::move(asked)), room_(count)
    {
    }

    detail::handle client_;
    std::unique_ptr<detail::request> request_; // whose callback the library calls
    std::vector<hf_lease *> room_;
    hf_op *op_ = nullptr;
};

// Starts an acquire; `wait` as for try_acquire_for(), or `forever`.
template <class Rep, class Period>
pending<lease> start_acquire(const client &client, std::string_view name,
                             std::chrono::duration<Rep, Period> wait, const options &wanted = {})
{
    return detail::access::start<lease>(
        client, std::make_unique<detail::request>(name, detail::wait_ms(wait), wanted), 1,
        [](hf_client *c, hf_acquire_options *asked, hf_op **ret_op) {
            return hf_acquire_start(c, asked, ret_op);
        });
}

} // namespace holdfast

#endif

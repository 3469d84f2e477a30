// A lock of the fleet as a Lockable of C++17, for std::unique_lock, std::lock_guard and std::scoped_lock.
//
//     holdfast::mutex nightly(client, "nightly/report");
//     std::unique_lock lock(nightly, 10s);
//     while (lock && nightly.held())
//         do_a_little_work(nightly.fence());
//
// std::unique_lock cannot know of a loss: owns_lock() stays true. Ask the mutex. Where nothing asks for a
// Lockable, holdfast::lease says more: it reports a failed release, and can be moved.
#ifndef HOLDFAST_MUTEX_HPP
#define HOLDFAST_MUTEX_HPP

#include "holdfast.hpp"

#include <condition_variable>
#include <mutex>

namespace holdfast
{

// As with std::timed_mutex, the thread that locked it unlocks it, and does not lock it twice. Threads that share
// the object wait for each other first, and then for all others. held(), fence() and the rest are for the thread that has
// it locked. lock() and try_lock() throw holdfast::error for every failure but "another holds it".
class mutex
{
  public:
    mutex(const client &client, std::string name, options wanted = {})
        : client_(detail::access::share(client)), name_(std::move(name)), wanted_(std::move(wanted))
    {
    }
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    void lock()
    {
        place taken(*this, std::nullopt);

        lease_ = lease(client_, name_, wanted_);
        taken.keep();
    }
    bool try_lock() { return try_lock_for(std::chrono::milliseconds(0)); }
    template <class Rep, class Period> bool try_lock_for(std::chrono::duration<Rep, Period> wait)
    {
        // Without this a wait of the largest durations would end before it began.
        if (detail::wait_ms(wait) < 0) {
            lock();
            return true;
        }
        return try_lock_until(std::chrono::steady_clock::now() +
                              std::chrono::ceil<std::chrono::steady_clock::duration>(wait));
    }
    template <class Clock, class Duration>
    bool try_lock_until(std::chrono::time_point<Clock, Duration> end)
    {
        place taken(*this, std::optional(end));

        if (!taken)
            return false;
        lease_ = lease(client_, name_, end - Clock::now(), wanted_);
        if (!lease_)
            return false;
        taken.keep();
        return true;
    }
    // Never fails: what could be said of a lock that was lost before says held(), beforehand.
    void unlock() noexcept
    {
        lease_ = lease();
        leave();
    }

    bool held() const noexcept { return lease_.held(); }
    std::uint64_t fence() const noexcept { return lease_.fence(); }
    std::chrono::milliseconds remaining() const noexcept { return lease_.remaining(); }
    // The lease of the thread that has it locked.
    const lease &current() const noexcept { return lease_; }

  private:
    // This thread's turn among those that share the object, given up again unless it is kept.
    class place
    {
      public:
        place(mutex &of, std::nullopt_t) : of_(of)
        {
            std::unique_lock guard(of.guard_);

            of.left_.wait(guard, [&of] { return !of.taken_; });
            of.taken_ = mine_ = true;
        }
        template <class End> place(mutex &of, const std::optional<End> &end) : of_(of)
        {
            std::unique_lock guard(of.guard_);

            mine_ = of.left_.wait_until(guard, *end, [&of] { return !of.taken_; });
            of.taken_ = of.taken_ || mine_;
        }
        place(const place &) = delete;
        place &operator=(const place &) = delete;
        ~place()
        {
            if (mine_)
                of_.leave();
        }
        explicit operator bool() const noexcept { return mine_; }
        void keep() noexcept { mine_ = false; }

      private:
        mutex &of_;
        bool mine_ = false;
    };

    void leave() noexcept
    {
        {
            std::lock_guard guard(guard_);
            taken_ = false;
        }
        left_.notify_one();
    }

    client client_;
    std::string name_;
    options wanted_;
    std::mutex guard_; // of taken_, for an instant only
    std::condition_variable left_;
    bool taken_ = false;
    lease lease_; // of the thread that took
};

} // namespace holdfast

#endif

// Several locks at once, and counted locks, for C++17. holdfast.hpp and holdfast_sets.h say what holds here, too.
//
//     holdfast::lease_set both(client, {"account/7", "account/9"});   // both or none; no deadlock
//     while (work_left() && !both.must_stop())
//         do_a_little_work(both.fence(0), both.fence(1));
//     holdfast::lease worker = holdfast::acquire_slot(client, "workers", 3);   // one of three
#ifndef HOLDFAST_SETS_HPP
#define HOLDFAST_SETS_HPP

#include "holdfast.hpp"

#include <algorithm>

namespace holdfast
{

// Up to HF_SET_MAX different names, of strings that stay until the call is over.
struct name_list : std::vector<std::string_view> {
    using vector::vector;
    name_list(const std::vector<std::string_view> &names) : vector(names) {}
    name_list(const std::vector<std::string> &names) : vector(names.begin(), names.end()) {}
};

class lease_set;

// Tries once; code() is errc::busy when one is held by another, and error().index() tells which.
result<lease_set> try_acquire_all(const client &client, const name_list &names,
                                  const options &wanted = {});
// The same with a wait for all of them.
template <class Rep, class Period>
result<lease_set> try_acquire_all_for(const client &client, const name_list &names,
                                      std::chrono::duration<Rep, Period> wait,
                                      const options &wanted = {});

namespace detail
{
inline std::vector<hf_name> c_names(const name_list &names)
{
    std::vector<hf_name> made;

    made.reserve(names.size());
    for (std::string_view name : names)
        made.push_back({name.data() ? name.data() : "", name.size()});
    return made;
}

lease_set acquire_all(const client &client, const name_list &names, std::int64_t wait,
                      const options &wanted);
} // namespace detail

// All locks of a set, or nothing. Its destructor releases them. They are one hold: when the first of them is being lost,
// the work under all is to stop. As with a lease, any thread may call the const and noexcept members.
class lease_set
{
  public:
    lease_set() = default;
    // Waits for all of them without limit.
    lease_set(const client &client, const name_list &names, const options &wanted = {})
        : lease_set(detail::acquire_all(client, names, -1, wanted))
    {
    }
    // As with std::unique_lock, empty when one is held by another (until the wait is over); every other failure is thrown.
    template <class Try, class = detail::if_try<Try>>
    lease_set(const client &client, const name_list &names, Try, const options &wanted = {})
        : lease_set(detail::access::unless_held(try_acquire_all(client, names, wanted)))
    {
    }
    template <class Rep, class Period>
    lease_set(const client &client, const name_list &names, std::chrono::duration<Rep, Period> wait,
              const options &wanted = {})
        : lease_set(detail::access::unless_held(try_acquire_all_for(client, names, wait, wanted)))
    {
    }

    lease_set(lease_set &&other) noexcept
        : client_(std::move(other.client_)), leases_(std::exchange(other.leases_, {})),
          change_(std::move(other.change_))
    {
    }
    lease_set &operator=(lease_set &&other) noexcept
    {
        lease_set taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~lease_set()
    {
        if (!leases_.empty())
            (void)hf_release_all(leases_.data(), leases_.size());
    }
    void swap(lease_set &other) noexcept
    {
        client_.swap(other.client_);
        leases_.swap(other.leases_);
        change_.swap(other.change_);
    }

    // True while all are held; false for an empty one. Once false it stays false.
    bool held() const noexcept { return hf_held_all(leases_.data(), leases_.size()) != 0; }
    explicit operator bool() const noexcept { return held(); }
    std::size_t size() const noexcept { return leases_.size(); }
    // Of the name at `index` of those that were asked for.
    std::uint64_t fence(std::size_t index) const { return hf_fence(leases_.at(index)); }
    // The shortest; 0 when not all are held.
    std::chrono::milliseconds remaining() const noexcept
    {
        std::int64_t least = held() ? std::numeric_limits<std::int64_t>::max() : 0;

        for (hf_lease *lease : leases_)
            least = std::min(least, hf_remaining_ms(lease));
        return std::chrono::milliseconds(least);
    }
    // The worst of theirs, in the order of `state`. Empty: released. In a forked child: lost.
    holdfast::state state() const noexcept { return worst(leases_); }
    // True when one is losing or over, and for an empty one: whoever asks this between the steps of his work stops in time.
    bool must_stop() const noexcept { return detail::must_stop(state()); }
    // Why the first that is losing or lost is so; "" when none is.
    const char *reason() const noexcept
    {
        for (hf_lease *lease : leases_)
            if (const char *why = hf_reason(lease); *why)
                return why;
        return "";
    }
    // For all; true: call the client's dispatch().
    bool beat() const noexcept
    {
        bool restarted = false;

        for (hf_lease *lease : leases_)
            restarted |= hf_beat(lease) != 0;
        return restarted;
    }

    // Sleeps until state() is another than `from`, or lost or released; returns it, which is still `from` when the time is
    // over. The library sleeps on one lease: what becomes of the others is seen 20 ms later at most. Throws errc::interrupted.
    template <class Rep, class Period>
    holdfast::state wait_while(holdfast::state from,
                               std::chrono::duration<Rep, Period> timeout) const
    {
        using std::chrono::milliseconds;
        const std::int64_t wait = detail::wait_ms(timeout);
        const boot_clock::time_point end = boot_clock::now() + milliseconds(wait);

        for (;;) {
            holdfast::state now = state();
            milliseconds left(20);

            if (wait >= 0)
                left = std::min(left, std::chrono::ceil<milliseconds>(end - boot_clock::now()));
            if (now != from || now >= state::lost || left.count() <= 0)
                return now;
            hf_lease *first = leases_.front();
            if (int status = hf_wait(first, hf_state(first), left.count()); status == HF_EINTR)
                throw error::last(status);
        }
    }

    // The client's dispatch() calls it after each change of state(), once for all leases. It must not end or move this set, nor
    // call on_change(). `{}` turns it off. Throws errc::not_held for an empty set, errc::forked in a forked child.
    void on_change(change_callback wanted)
    {
        if (leases_.empty())
            throw error(HF_ENOTHELD, "acquire the set first: it is empty");
        auto kept = std::make_unique<change>(change{std::move(wanted), leases_, state::held});
        for (hf_lease *lease : leases_)
            if (int status =
                    hf_on_change(lease, kept->callback ? call_change : nullptr, kept.get());
                status < 0)
                throw error::last(status);
        change_.swap(kept);
    }

    // Throws the first failure, as lease::release() does; all are released, and the set is empty, in every case.
    void release()
    {
        std::vector<hf_lease *> leases = std::exchange(leases_, {});
        detail::handle client = std::exchange(client_, nullptr);
        std::unique_ptr<change> kept = std::move(change_);

        if (leases.empty())
            throw error(HF_ENOTHELD, "the set is empty");
        if (int status = hf_release_all(leases.data(), leases.size()); status < 0)
            throw error::last(status);
    }

    // For calls of holdfast.h that do not end it.
    hf_lease *c(std::size_t index) const { return leases_.at(index); }

  private:
    friend struct detail::access;
    lease_set(detail::handle client, detail::request &, std::vector<hf_lease *> granted) noexcept
        : client_(std::move(client)), leases_(std::move(granted))
    {
    }

    struct change {
        change_callback callback;
        std::vector<hf_lease *> leases;
        holdfast::state told;
    };
    static holdfast::state worst(const std::vector<hf_lease *> &leases) noexcept
    {
        holdfast::state found = leases.empty() ? state::released : state::held;

        for (hf_lease *lease : leases)
            found = std::max(found, detail::state_of(hf_state(lease)));
        return found;
    }
    static void call_change(hf_lease *, int, void *arg)
    {
        change &of = *static_cast<change *>(arg);
        holdfast::state now = worst(of.leases);

        if (now != std::exchange(of.told, now))
            of.callback(now);
    }

    detail::handle client_;
    std::vector<hf_lease *> leases_;
    std::unique_ptr<change> change_; // at an address that moves do not change
};

inline lease_set detail::acquire_all(const client &client, const name_list &names,
                                     std::int64_t wait, const options &wanted)
{
    request asked({}, wait, wanted);
    std::vector<hf_name> c = c_names(names);

    asked.without_name();
    return access::acquire<lease_set>(
        client, asked, c.size(),
        [&c](hf_client *at, hf_acquire_options *options, hf_lease **ret_leases) {
            return hf_acquire_all(at, options, c.data(), c.size(), ret_leases);
        });
}

inline result<lease_set> try_acquire_all(const client &client, const name_list &names,
                                         const options &wanted)
{
    return detail::caught([&] { return detail::acquire_all(client, names, 0, wanted); });
}

template <class Rep, class Period>
result<lease_set> try_acquire_all_for(const client &client, const name_list &names,
                                      std::chrono::duration<Rep, Period> wait,
                                      const options &wanted)
{
    return detail::caught(
        [&] { return detail::acquire_all(client, names, detail::wait_ms(wait), wanted); });
}

// As start_acquire(), for all of them.
template <class Rep, class Period>
pending<lease_set> start_acquire_all(const client &client, const name_list &names,
                                     std::chrono::duration<Rep, Period> wait,
                                     const options &wanted = {})
{
    auto asked =
        std::make_unique<detail::request>(std::string_view(), detail::wait_ms(wait), wanted);
    std::vector<hf_name> c = detail::c_names(names);

    asked->without_name();
    return detail::access::start<lease_set>(
        client, std::move(asked), c.size(),
        [&](hf_client *at, hf_acquire_options *options, hf_op **ret_op) {
            return hf_acquire_all_start(at, options, c.data(), c.size(), ret_op);
        });
}

// --- counted locks: one of `slots`, of which lease::slot() has the number. All programs use the same `slots`.

namespace detail
{
inline lease acquire_slot(const client &client, std::string_view name, unsigned slots,
                          std::int64_t wait, const options &wanted)
{
    request asked(name, wait, wanted);
    unsigned slot = 0;

    return access::acquire<lease>(
        client, asked, 1, [&](hf_client *c, hf_acquire_options *options, hf_lease **ret_leases) {
            return hf_acquire_slot(c, options, slots, ret_leases, &slot);
        });
}
} // namespace detail

// Waits without limit, and throws every failure.
inline lease acquire_slot(const client &client, std::string_view name, unsigned slots,
                          const options &wanted = {})
{
    return detail::acquire_slot(client, name, slots, -1, wanted);
}

// Tries once.
inline result<lease> try_acquire_slot(const client &client, std::string_view name, unsigned slots,
                                      const options &wanted = {})
{
    return detail::caught([&] { return detail::acquire_slot(client, name, slots, 0, wanted); });
}

template <class Rep, class Period>
result<lease> try_acquire_slot_for(const client &client, std::string_view name, unsigned slots,
                                   std::chrono::duration<Rep, Period> wait,
                                   const options &wanted = {})
{
    return detail::caught(
        [&] { return detail::acquire_slot(client, name, slots, detail::wait_ms(wait), wanted); });
}

// As start_acquire().
template <class Rep, class Period>
pending<lease> start_acquire_slot(const client &client, std::string_view name, unsigned slots,
                                  std::chrono::duration<Rep, Period> wait,
                                  const options &wanted = {})
{
    return detail::access::start<lease>(
        client, std::make_unique<detail::request>(name, detail::wait_ms(wait), wanted), 1,
        [slots](hf_client *c, hf_acquire_options *asked, hf_op **ret_op) {
            return hf_acquire_slot_start(c, asked, slots, ret_op);
        });
}

} // namespace holdfast

#endif

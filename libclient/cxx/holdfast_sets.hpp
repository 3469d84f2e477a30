// Several locks at once, and counted locks, for C++17. holdfast.hpp and holdfast_sets.h say what holds here, too.
//
//     holdfast::lease_set both(client, {"account/7", "account/9"});   // both or none; no deadlock
//     holdfast::lease worker = holdfast::acquire_slot(client, "workers", 3);   // one of three
#ifndef HOLDFAST_SETS_HPP
#define HOLDFAST_SETS_HPP

#include "holdfast.hpp"

#include <algorithm>

namespace holdfast
{

// Up to HF_SET_MAX different names.
using name_list = std::vector<std::string_view>;

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

// All locks of a set, or nothing. Its destructor releases them.
class lease_set
{
  public:
    lease_set() = default;
    // Waits without limit.
    lease_set(const client &client, const name_list &names, const options &wanted = {})
        : lease_set(detail::acquire_all(client, names, -1, wanted))
    {
    }
    // As with std::unique_lock, empty when one is held by another; every other failure is thrown.
    lease_set(const client &client, const name_list &names, std::try_to_lock_t,
              const options &wanted = {})
        : lease_set(detail::access::unless_held(try_acquire_all(client, names, wanted)))
    {
    }

    lease_set(lease_set &&other) noexcept
        : client_(std::move(other.client_)), leases_(std::exchange(other.leases_, {}))
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
    // For all; true: call the client's dispatch().
    bool beat() const noexcept
    {
        bool restarted = false;

        for (hf_lease *lease : leases_)
            restarted |= hf_beat(lease) != 0;
        return restarted;
    }

    // Throws the first failure, as lease::release() does; all are released, and the set is empty, in every case.
    void release()
    {
        std::vector<hf_lease *> leases = std::exchange(leases_, {});
        detail::handle client = std::exchange(client_, nullptr);

        if (leases.empty())
            throw error(HF_ENOTHELD, "the set is empty");
        if (int status = hf_release_all(leases.data(), leases.size()); status < 0)
            throw error::last(status);
    }

    // For calls of holdfast.h that do not end it.
    hf_lease *c(std::size_t index) const { return leases_.at(index); }

  private:
    friend struct detail::access;
    lease_set(detail::handle client, std::vector<hf_lease *> granted) noexcept
        : client_(std::move(client)), leases_(std::move(granted))
    {
    }

    detail::handle client_;
    std::vector<hf_lease *> leases_;
};

inline lease_set detail::acquire_all(const client &client, const name_list &names,
                                     std::int64_t wait, const options &wanted)
{
    request asked({}, wait, wanted);
    std::vector<hf_name> c = c_names(names);

    asked.without_name();
    return access::acquire<lease_set>(client, c.size(), [&](hf_client *at, hf_lease **ret_leases) {
        return hf_acquire_all(at, asked.c(), c.data(), c.size(), ret_leases);
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

    return access::acquire<lease>(client, 1, [&](hf_client *c, hf_lease **ret_leases) {
        return hf_acquire_slot(c, asked.c(), slots, ret_leases, &slot);
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

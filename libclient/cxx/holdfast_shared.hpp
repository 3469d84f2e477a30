// Shared and exclusive locks for C++17: many may share a name, or one has it alone. holdfast.hpp and
// holdfast_sets.h say what holds here, too.
//
//     holdfast::lease reader = holdfast::acquire_shared(client, "catalogue");
//     holdfast::lease_set writer = holdfast::acquire_exclusive(client, "catalogue");
//     write(writer.fence(holdfast::exclusive_name));
#ifndef HOLDFAST_SHARED_HPP
#define HOLDFAST_SHARED_HPP

#include "holdfast_sets.hpp"

namespace holdfast
{

// In an exclusive hold: the index of the name's own lease, whose fence other exclusive holders compare with.
inline constexpr std::size_t exclusive_name = HF_EXCLUSIVE_NAME;

namespace detail
{
inline lease acquire_shared(const client &client, std::string_view name, std::int64_t wait,
                            const options &wanted)
{
    request asked(name, wait, wanted);

    return access::acquire<lease>(
        client, asked, 1, [](hf_client *c, hf_acquire_options *options, hf_lease **ret_leases) {
            return hf_acquire_shared(c, options, 0, ret_leases);
        });
}

inline lease_set acquire_exclusive(const client &client, std::string_view name, std::int64_t wait,
                                   const options &wanted)
{
    request asked(name, wait, wanted);

    return access::acquire<lease_set>(client, asked, HF_EXCLUSIVE_LEASES, hf_acquire_exclusive);
}
} // namespace detail

// To share it: as lease's constructors, and try_acquire(), for one slot of the name, which lease::slot() tells.

inline lease acquire_shared(const client &client, std::string_view name, const options &wanted = {})
{
    return detail::acquire_shared(client, name, -1, wanted);
}

inline result<lease> try_acquire_shared(const client &client, std::string_view name,
                                        const options &wanted = {})
{
    return detail::caught([&] { return detail::acquire_shared(client, name, 0, wanted); });
}

template <class Rep, class Period>
result<lease> try_acquire_shared_for(const client &client, std::string_view name,
                                     std::chrono::duration<Rep, Period> wait,
                                     const options &wanted = {})
{
    return detail::caught(
        [&] { return detail::acquire_shared(client, name, detail::wait_ms(wait), wanted); });
}

template <class Rep, class Period>
pending<lease> start_acquire_shared(const client &client, std::string_view name,
                                    std::chrono::duration<Rep, Period> wait,
                                    const options &wanted = {})
{
    return detail::access::start<lease>(
        client, std::make_unique<detail::request>(name, detail::wait_ms(wait), wanted), 1,
        [](hf_client *c, hf_acquire_options *asked, hf_op **ret_op) {
            return hf_acquire_shared_start(c, asked, 0, ret_op);
        });
}

// To have it alone: all its leases are one hold, which lasts while held() is true, and is to end when must_stop() is.

inline lease_set acquire_exclusive(const client &client, std::string_view name,
                                   const options &wanted = {})
{
    return detail::acquire_exclusive(client, name, -1, wanted);
}

inline result<lease_set> try_acquire_exclusive(const client &client, std::string_view name,
                                               const options &wanted = {})
{
    return detail::caught([&] { return detail::acquire_exclusive(client, name, 0, wanted); });
}

template <class Rep, class Period>
result<lease_set> try_acquire_exclusive_for(const client &client, std::string_view name,
                                            std::chrono::duration<Rep, Period> wait,
                                            const options &wanted = {})
{
    return detail::caught(
        [&] { return detail::acquire_exclusive(client, name, detail::wait_ms(wait), wanted); });
}

template <class Rep, class Period>
pending<lease_set> start_acquire_exclusive(const client &client, std::string_view name,
                                           std::chrono::duration<Rep, Period> wait,
                                           const options &wanted = {})
{
    return detail::access::start<lease_set>(
        client, std::make_unique<detail::request>(name, detail::wait_ms(wait), wanted),
        HF_EXCLUSIVE_LEASES, [](hf_client *c, hf_acquire_options *asked, hf_op **ret_op) {
            return hf_acquire_exclusive_start(c, asked, ret_op);
        });
}

} // namespace holdfast

#endif

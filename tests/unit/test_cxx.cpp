/* Contract. What holdfast.hpp promises without an agent: errors, times, and objects that hold nothing. */
#include "libclient/cxx/holdfast_mutex.hpp"
#include "libclient/cxx/holdfast_sets.hpp"

#include <sstream>

#include <csetjmp>
#include <cstdarg>
#include <cstddef>

extern "C" {
#include <cmocka.h>
}

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<holdfast::client> &&
              std::is_nothrow_move_constructible_v<holdfast::client>);
static_assert(!std::is_copy_constructible_v<holdfast::lease> &&
              !std::is_copy_assignable_v<holdfast::lease>);
static_assert(std::is_nothrow_move_constructible_v<holdfast::lease> &&
              std::is_nothrow_move_assignable_v<holdfast::lease> &&
              std::is_nothrow_destructible_v<holdfast::lease>);
static_assert(!std::is_copy_constructible_v<holdfast::lease_set> &&
              std::is_nothrow_move_constructible_v<holdfast::lease_set> &&
              std::is_nothrow_move_assignable_v<holdfast::lease_set> &&
              std::is_nothrow_destructible_v<holdfast::lease_set>);
static_assert(std::is_nothrow_move_constructible_v<holdfast::pending<holdfast::lease>> &&
              std::is_nothrow_destructible_v<holdfast::pending<holdfast::lease_set>>);
static_assert(!std::is_move_constructible_v<holdfast::mutex>);
static_assert(std::is_nothrow_copy_constructible_v<holdfast::error>); // as exceptions must be
// A span that is cut short without a word would be a shorter lease than was asked for.
static_assert(std::is_assignable_v<decltype(holdfast::options::ttl) &, std::chrono::seconds> &&
              !std::is_assignable_v<decltype(holdfast::options::ttl) &, std::chrono::microseconds>);

static void an_empty_lease_holds_nothing(void **)
{
    holdfast::lease lease, other(std::move(lease));
    bool thrown = false;

    lease = std::move(other);
    assert_false(lease.held());
    assert_true(lease.must_stop());
    assert_false(static_cast<bool>(other));
    assert_int_equal(lease.fence(), 0);
    assert_int_equal(lease.remaining().count(), 0);
    assert_true(lease.valid_until() == holdfast::boot_clock::time_point());
    assert_true(lease.state() == holdfast::state::released);
    assert_string_equal(lease.reason(), "");
    assert_true(lease.name().empty());
    assert_false(lease.slot().has_value());
    assert_false(lease.beat());
    assert_true(lease.wait_while(holdfast::state::held, 1h) == holdfast::state::released);
    assert_false(lease.release_soon());
    try {
        lease.release();
    } catch (const holdfast::error &failure) {
        thrown = failure.code() == holdfast::errc::not_held;
    }
    assert_true(thrown);
    thrown = false;
    try {
        lease.on_change([](holdfast::state) noexcept {});
    } catch (const holdfast::error &) {
        thrown = true;
    }
    assert_true(thrown);
}

static void an_empty_set_is_not_held(void **)
{
    holdfast::lease_set set, other(std::move(set));
    bool thrown = false;

    assert_false(other.held()); // "all of none" would be true
    assert_int_equal(other.size(), 0);
    assert_int_equal(other.remaining().count(), 0);
    assert_false(other.beat());
    assert_true(other.must_stop());
    assert_true(other.state() == holdfast::state::released);
    assert_string_equal(other.reason(), "");
    assert_true(other.wait_while(holdfast::state::held, 1h) == holdfast::state::released);
    try {
        other.release();
    } catch (const holdfast::error &failure) {
        thrown = failure.code() == holdfast::errc::not_held;
    }
    assert_true(thrown);
    thrown = false;
    try {
        other.on_change([](holdfast::state) noexcept {});
    } catch (const holdfast::error &failure) {
        thrown = failure.code() == holdfast::errc::not_held;
    }
    assert_true(thrown);
}

// Empty braces are the default options, not one of several arguments that they could be.
static_assert(
    std::is_same_v<decltype(holdfast::lease(std::declval<holdfast::client &>(), "a", {})),
                   holdfast::lease> &&
    std::is_same_v<decltype(holdfast::lease_set(std::declval<holdfast::client &>(), {"a"}, {})),
                   holdfast::lease_set>);

static void a_state_is_written_as_a_word(void **)
{
    std::ostringstream out;

    out << holdfast::state::held << ' ' << holdfast::state::late << ' ' << holdfast::state::losing
        << ' ' << holdfast::state::lost << ' ' << holdfast::state::released;
    assert_string_equal(out.str().c_str(), "held late losing lost released");
}

static void names_of_a_set_come_from_any_strings(void **)
{
    std::vector<std::string> strings{"a", "b"};
    std::vector<std::string_view> views(strings.begin(), strings.end());

    for (const holdfast::name_list &names :
         {holdfast::name_list{"a", "b"}, holdfast::name_list{strings[0], strings[1]},
          holdfast::name_list(strings), holdfast::name_list(views)}) {
        assert_int_equal(names.size(), 2);
        assert_true(names[0] == "a" && names[1] == "b");
    }
}

static void without_an_agent_the_constructor_throws_and_the_try_tells(void **)
{
    const char *nowhere = "/nonexistent/holdfast/sock";
    bool thrown = false;

    try {
        holdfast::client client(nowhere);
    } catch (const std::system_error &failure) {
        thrown = failure.code() == holdfast::errc::no_agent;
        assert_non_null(std::strstr(failure.what(), nowhere));
        assert_string_equal(failure.code().category().name(), "holdfast");
    }
    assert_true(thrown);

    auto tried = holdfast::client::try_connect(nowhere);
    assert_false(tried.has_value());
    assert_true(tried.code() == holdfast::errc::no_agent);
    assert_non_null(std::strstr(tried.error().what(), nowhere));
    assert_null(tried.error().holder());
    assert_false(tried.error().index().has_value());
    thrown = false;
    try {
        (void)tried.value();
    } catch (const holdfast::error &failure) {
        thrown = failure.code() == holdfast::errc::no_agent;
    }
    assert_true(thrown);
}

static void codes_compare_with_the_standard_conditions(void **)
{
    std::error_code timed_out = holdfast::errc::timed_out;

    assert_true(timed_out == std::errc::timed_out);
    assert_false(timed_out == std::errc::interrupted);
    assert_true(make_error_code(holdfast::errc::busy) == std::errc::device_or_resource_busy);
    assert_true(make_error_code(holdfast::errc::interrupted) == std::errc::interrupted);
    assert_true(make_error_code(holdfast::errc::not_permitted) ==
                std::errc::operation_not_permitted);
    assert_true(make_error_code(holdfast::errc::canceled) == std::errc::operation_canceled);
    assert_true(make_error_code(holdfast::errc::no_memory) == std::errc::not_enough_memory);
    assert_true(make_error_code(holdfast::errc::invalid_argument) == std::errc::invalid_argument);
    assert_true(make_error_code(holdfast::errc::lost).default_error_condition().category() ==
                holdfast::category());
    assert_string_equal(timed_out.message().c_str(), hf_strerror(HF_ETIMEDOUT));
}

static void a_wait_is_rounded_up_and_the_longest_has_no_limit(void **)
{
    assert_int_equal(holdfast::detail::wait_ms(-1s), 0);
    assert_int_equal(holdfast::detail::wait_ms(0s), 0);
    assert_int_equal(holdfast::detail::wait_ms(1ns), 1);
    assert_int_equal(holdfast::detail::wait_ms(1500us), 2);
    assert_int_equal(holdfast::detail::wait_ms(std::chrono::duration<double>(0.25)), 250);
    assert_int_equal(holdfast::detail::wait_ms(holdfast::forever), -1);
    assert_int_equal(holdfast::detail::wait_ms(std::chrono::hours::max()), -1);
    assert_int_equal(holdfast::detail::wait_ms(std::chrono::nanoseconds::max()), -1);
    assert_int_equal(holdfast::detail::wait_ms(std::chrono::nanoseconds::min()), 0);
}

static void a_span_that_does_not_fit_is_refused_and_not_cut(void **)
{
    holdfast::options wanted;
    int refused = 0;

    for (std::chrono::milliseconds span : {std::chrono::milliseconds(-1), 4294967296ms}) {
        for (auto *field : {&wanted.ttl, &wanted.max_hold, &wanted.heartbeat}) {
            *field = span;
            try {
                holdfast::detail::request request("a", 0, wanted);
            } catch (const holdfast::error &failure) {
                refused += failure.code() == std::errc::invalid_argument &&
                           std::strstr(failure.what(), std::to_string(span.count()).c_str());
            }
            *field = 0ms;
        }
    }
    assert_int_equal(refused, 6);
    wanted.max_hold = 4294967295ms;
    holdfast::detail::request request("a", 0, wanted);
    assert_int_equal(request.c()->max_hold_ms, 4294967295);
}

static void the_clock_is_that_of_validities(void **)
{
    timespec before{}, after{};
    std::int64_t ns;

    clock_gettime(CLOCK_BOOTTIME, &before);
    ns = holdfast::boot_clock::now().time_since_epoch().count();
    clock_gettime(CLOCK_BOOTTIME, &after);
    assert_true(before.tv_sec * INT64_C(1000000000) + before.tv_nsec <= ns);
    assert_true(ns <= after.tv_sec * INT64_C(1000000000) + after.tv_nsec);
}

static void a_holder_whose_beginning_is_unknown_has_none(void **)
{
    hf_holder holder = HF_HOLDER_INIT;

    assert_false(holdfast::since(holder).has_value());
    holder.since_wall_ms = 1000;
    assert_true(holdfast::since(holder) == std::chrono::system_clock::from_time_t(1));
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_lease_holds_nothing),
        cmocka_unit_test(an_empty_set_is_not_held),
        cmocka_unit_test(a_state_is_written_as_a_word),
        cmocka_unit_test(names_of_a_set_come_from_any_strings),
        cmocka_unit_test(without_an_agent_the_constructor_throws_and_the_try_tells),
        cmocka_unit_test(codes_compare_with_the_standard_conditions),
        cmocka_unit_test(a_wait_is_rounded_up_and_the_longest_has_no_limit),
        cmocka_unit_test(a_span_that_does_not_fit_is_refused_and_not_cut),
        cmocka_unit_test(the_clock_is_that_of_validities),
        cmocka_unit_test(a_holder_whose_beginning_is_unknown_has_none),
    };

    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

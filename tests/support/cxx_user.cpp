// What holdfast.hpp does with an agent: cxx_user CASE NAME runs one case on locks whose names begin with NAME, and
// ends with 1 and the line of what was not so. tests/integration/test_cxx.py runs them.
#include "libclient/cxx/holdfast_mutex.hpp"
#include "libclient/cxx/holdfast_shared.hpp"

#include <libclient/holdfast_admin.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace std::chrono_literals;
using holdfast::errc;
using holdfast::lease;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

template <class Call> static std::error_code thrown_by(Call call)
{
    try {
        call();
    } catch (const holdfast::error &failure) {
        return failure.code();
    }
    return {};
}

static bool is_free(const holdfast::client &client, const std::string &name)
{
    return holdfast::try_acquire(client, name).has_value(); // and it is released again here
}

// Ends, exceptions included, release at once.
static void holds(const std::string &name)
{
    holdfast::client client, other;
    std::uint64_t fence = 0;

    {
        lease held(client, name, holdfast::options{10s, 0s, 0s, "a note", {}});

        MUST(held && held.held() && held.state() == holdfast::state::held && !held.must_stop());
        MUST(held.remaining() > 5s && held.remaining() <= 10s);
        MUST(held.valid_until() > holdfast::boot_clock::now() + 5s);
        MUST(held.valid_until() < holdfast::boot_clock::now() + 10s);
        MUST(!held.slot() && !*held.reason() && held.name() == name);
        fence = held.fence();
        MUST(fence > 0);

        auto tried = holdfast::try_acquire(other, name);
        MUST(!tried && tried.code() == errc::busy && tried.error().holder());
        MUST(tried.error().holder()->pid == static_cast<std::uint32_t>(getpid()));
        MUST(tried.error().holder()->fence == fence);
        MUST(std::strcmp(tried.error().holder()->note, "a note") == 0);
        auto since = holdfast::since(*tried.error().holder());
        MUST(since && std::chrono::system_clock::now() - *since < 1min);
        MUST(thrown_by([&] { (void)tried.value(); }) == errc::busy);
    }
    try {
        lease held(client, name);
        MUST(held.fence() > fence);
        fence = held.fence();
        throw std::runtime_error("in the middle");
    } catch (const std::runtime_error &) {
    }
    lease again(other, name, std::try_to_lock);
    MUST(again && again.fence() > fence);
    again.release();
    MUST(!again && again.fence() == 0 && !again.c());
    MUST(thrown_by([&] { again.release(); }) == errc::not_held);
    again = lease(client, name);
    MUST(again.release_soon() && !again);
    MUST(lease(other, name, 10s).held());
}

// Refused at once; another client may wait.
static void waits_for_itself(const std::string &name)
{
    holdfast::client client;
    lease held(client, name);

    MUST(thrown_by([&] { lease(client, name, 10s); }) == errc::deadlock);
    MUST(thrown_by([&] { lease again(client, name); }) == errc::deadlock);
    MUST(!lease(client, name, std::try_to_lock));
    MUST(held.held());
}

static void moves(const std::string &name)
{
    holdfast::client client, other;
    lease first(client, name + "1"), second(client, name + "2");
    std::uint64_t fence = second.fence();

    lease third(std::move(first));
    MUST(!first.held() && !first.c() && first.state() == holdfast::state::released);
    MUST(third.held() && !is_free(other, name + "1"));
    MUST(first.name().empty() && third.name() == name + "1");
    third = std::move(second); // and the lock that it had is free
    MUST(third.fence() == fence && !second.c() && is_free(other, name + "1"));
    lease &same = third;
    third = std::move(same);
    MUST(third.held() && third.fence() == fence);
    first.swap(third);
    MUST(first.held() && !third.c() && !is_free(other, name + "2"));

    // A lease may outlive its client object: the session ends with the last of them.
    auto gone = std::make_unique<holdfast::client>();
    lease outlives(*gone, name + "3");
    holdfast::client taken(std::move(*gone));
    MUST(!gone->c() &&
         thrown_by([&] { (void)lease(*gone, name + "4"); }) == errc::invalid_argument);
    MUST(thrown_by([&] { gone->dispatch(); }) == errc::invalid_argument);
    gone.reset();
    taken = holdfast::client();
    MUST(outlives.held() && !is_free(other, name + "3"));
    outlives.release();
    MUST(is_free(other, name + "3"));
}

static void fails(const std::string &name)
{
    holdfast::client client, other;
    std::string longest(256, 'x');
    lease held(other, name);

    MUST(thrown_by([&] { (void)lease(client, ""); }) == errc::bad_name);
    MUST(thrown_by([&] { (void)lease(client, longest, std::try_to_lock); }) == errc::bad_name);
    MUST(thrown_by([&] { (void)lease(client, longest, 1s); }) == errc::bad_name);
    MUST(holdfast::try_acquire(client, std::string_view()).code() == errc::bad_name);
    MUST(thrown_by([&] {
             (void)lease(client, name, holdfast::options{1ms, 0s, 0s, "", {}});
         }) == errc::bad_ttl);
    MUST(holdfast::try_acquire(client, name, holdfast::options{24h * 60, 0s, 0s, "", {}}).code() ==
         errc::invalid_argument);
    MUST(holdfast::try_acquire(client, name, holdfast::options{0s, 0s, 0s, longest, {}}).code() ==
         errc::invalid_argument);

    auto began = std::chrono::steady_clock::now();
    auto waited = holdfast::try_acquire_for(client, name, 200ms);
    MUST(waited.code() == std::errc::timed_out && waited.error().holder());
    MUST(std::chrono::steady_clock::now() - began >= 200ms);
    MUST(!lease(client, name, 100ms));
    MUST(!lease(client, name, std::try_to_lock));
    MUST(!lease(client, name, -1s)); // as with std::unique_lock, a try
}

static void forks(const std::string &name)
{
    holdfast::client client, other;
    auto held = std::make_unique<lease>(client, name);
    holdfast::lease_set set(client, {name + "a", name + "b"});
    auto waits = std::make_unique<holdfast::pending<lease>>(
        holdfast::start_acquire(client, name, holdfast::forever));
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        MUST(!held->held() && held->fence() == 0 && !set.held());
        MUST(held->state() == holdfast::state::lost);
        MUST(held->remaining() == 0ms);
        MUST(thrown_by([&] { client.dispatch(); }) == errc::forked);
        MUST(thrown_by([&] { (void)waits->get(); }) == errc::forked);
        MUST(set.must_stop() && set.state() == holdfast::state::lost);
        MUST(set.wait_while(holdfast::state::held, 1h) == holdfast::state::lost);
        MUST(thrown_by([&] { set.on_change([](holdfast::state) noexcept {}); }) == errc::forked);
        MUST(thrown_by([&] { set.release(); }) == errc::forked);
        held.reset(); // what is inherited goes without touching the parent's
        waits.reset();
        holdfast::client own;
        MUST(!holdfast::try_acquire(own, name));
        { // all else goes as the child leaves
            holdfast::client last(std::move(client)), more(std::move(other));
        }
        std::exit(0);
    }
    MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    MUST(held->held() && set.held() && !is_free(other, name) && !is_free(other, name + "a"));
    held->release();
    std::optional<lease> got;
    for (int i = 0; i < 500 && !got; i++) {
        std::this_thread::sleep_for(10ms);
        client.dispatch();
        got = waits->get();
    }
    MUST(got && got->held());
}

static void hears(const std::string &name)
{
    holdfast::client client, other;
    lease held(client, name);
    std::vector<holdfast::state> heard;
    pollfd poll_fd{client.fd(), POLLIN, 0};

    MUST(held.wait_while(holdfast::state::held, 50ms) == holdfast::state::held);
    held.on_change([&heard](holdfast::state now) noexcept { heard.push_back(now); });
    lease moved(std::move(held)); // the callback comes along
    MUST(hf_ask(other.c(), name.data(), name.size()) == HF_OK);
    while (heard.empty()) {
        MUST(poll(&poll_fd, 1, 10000) == 1);
        client.dispatch();
    }
    MUST(heard.front() == holdfast::state::losing && moved.state() == holdfast::state::losing);
    MUST(moved.wait_while(holdfast::state::held, holdfast::forever) == holdfast::state::losing);
    MUST(*moved.reason() && moved.must_stop() && moved.held());
    moved.on_change({});
    moved.release();
}

static void beats(const std::string &name)
{
    holdfast::client client;
    holdfast::options wanted;

    wanted.ttl = 1s;
    wanted.heartbeat = 300ms;
    lease held(client, name, wanted);
    auto end = std::chrono::steady_clock::now() + 1s;
    while (std::chrono::steady_clock::now() < end) {
        MUST(!held.beat());
        std::this_thread::sleep_for(20ms);
        MUST(held.held());
    }
    MUST(held.wait_while(holdfast::state::held, 10s) != holdfast::state::held);
    while (held.state() != holdfast::state::lost)
        held.wait_while(held.state(), 10s);
    MUST(!held.held() && held.fence() && *held.reason());
    try {
        held.release();
        MUST(!"a lost lease is released");
    } catch (const holdfast::error &failure) {
        MUST(failure.code() == errc::lost && std::strstr(failure.what(), "beat"));
    }
}

static void pends(const std::string &name)
{
    holdfast::client other;
    holdfast::client client = holdfast::client::start();
    std::uint32_t told = 0;
    holdfast::options wanted;
    pollfd poll_fd{client.fd(), POLLIN, 0};

    while (!client.ready()) {
        MUST(poll(&poll_fd, 1, 10000) == 1);
        client.dispatch();
    }
    MUST(client.info().nodes >= client.info().quorum && client.info().quorum > 0);
    wanted.progress = [&told](const hf_progress &now) noexcept { told = now.holder.pid; };
    {
        lease held(other, name);
        auto unwanted = holdfast::start_acquire(client, name, holdfast::forever);
        auto asked = holdfast::start_acquire(client, name, 10s, wanted);
        auto moved = std::move(asked);

        MUST(!moved.get() && thrown_by([&] { (void)asked.get(); }) == errc::not_held);
        while (!told) {
            MUST(poll(&poll_fd, 1, 10000) == 1);
            client.dispatch();
        }
        MUST(told == static_cast<std::uint32_t>(getpid()));
        {
            auto ends = std::move(unwanted); // its destructor calls it off
        }
        held.release();
        std::optional<lease> got;
        while (!(got = moved.get())) {
            MUST(poll(&poll_fd, 1, 10000) == 1);
            client.dispatch();
        }
        MUST(got->held() && thrown_by([&] { (void)moved.get(); }) == errc::not_held);
        MUST(got->name() == name);
        MUST(moved.try_get()->code() == errc::not_held);

        auto late = holdfast::start_acquire(other, name, 50ms);
        std::optional<holdfast::result<lease>> came;
        while (!(came = late.try_get()))
            std::this_thread::sleep_for(5ms);
        MUST(came->code() == errc::timed_out);
        got.reset();

        auto both = holdfast::start_acquire_all(other, {name, name + "2"}, 10s);
        std::optional<holdfast::lease_set> set;
        while (!(set = both.get()))
            std::this_thread::sleep_for(5ms);
        MUST(set->held() && set->size() == 2);
        auto slot = holdfast::start_acquire_slot(client, name + "slot", 2, 10s);
        while (!(got = slot.get()))
            std::this_thread::sleep_for(5ms);
        MUST(got->slot() && *got->slot() < 2 && got->name() == name + "slot");
    }
    MUST(lease(other, name, 10s)); // of what was called off, nothing is held
}

static void several(const std::string &name)
{
    holdfast::client client, other;
    const std::string a = name + "a", b = name + "b", c = name + "c";
    holdfast::lease_set both(client, {b, a});

    MUST(both && both.size() == 2 && both.remaining() > 0ms && both.fence(0) && both.fence(1));
    MUST(!both.beat() && !is_free(other, a) && !is_free(other, b));
    auto tried = holdfast::try_acquire_all(other, {c, a});
    MUST(tried.code() == errc::busy && tried.error().index() == 1);
    MUST(lease(other, c, 10s)); // or none
    MUST(holdfast::try_acquire_all_for(other, {a}, 50ms).code() == errc::timed_out);
    MUST(!holdfast::lease_set(other, {a, c}, std::try_to_lock));
    MUST(!holdfast::lease_set(other, {a, c}, 50ms));
    MUST(holdfast::lease_set(other, std::vector<std::string>{c, name + "d"}, 10s).size() == 2);
    MUST(holdfast::lease_set(other, {c}, {}).held());
    MUST(thrown_by([&] { (void)holdfast::lease_set(other, {}); }) == errc::invalid_argument);
    MUST(thrown_by([&] { (void)holdfast::lease_set(other, {c, c}); }) == errc::invalid_argument);
    holdfast::lease_set moved(std::move(both));
    MUST(!both && both.size() == 0 && moved.held());
    both = std::move(moved);
    both.release();
    MUST(!both && is_free(other, a) && is_free(other, b));
    try {
        holdfast::lease_set again(client, {a, b});
        throw std::runtime_error("in the middle");
    } catch (const std::runtime_error &) {
    }
    MUST(is_free(other, a) && is_free(other, b));

    lease one = holdfast::acquire_slot(client, name, 2),
          two = holdfast::acquire_slot(client, name, 2);
    MUST(one.slot() && two.slot() && *one.slot() + *two.slot() == 1);
    MUST(holdfast::try_acquire_slot(other, name, 2).code() == errc::busy);
    MUST(holdfast::try_acquire_slot_for(other, name, 2, 50ms).code() == errc::timed_out);
    one.release();
    MUST(holdfast::try_acquire_slot(other, name, 2).value().held());
}

static void shares(const std::string &name)
{
    holdfast::client client, other;
    lease first = holdfast::acquire_shared(client, name);
    auto second = holdfast::try_acquire_shared(other, name);

    MUST(first && second && second->held() && first.slot() && first.slot() != second->slot());
    MUST(holdfast::try_acquire_exclusive(other, name).code() == errc::busy);
    MUST(holdfast::try_acquire_exclusive_for(other, name, 50ms).code() == errc::timed_out);
    first.release();
    second->release();

    holdfast::lease_set alone = holdfast::acquire_exclusive(client, name);
    MUST(alone && alone.fence(holdfast::exclusive_name) > 0);
    MUST(holdfast::try_acquire_shared(other, name).code() == errc::busy);
    MUST(holdfast::try_acquire_shared_for(other, name, 50ms).code() == errc::timed_out);
    auto asked = holdfast::start_acquire_shared(other, name, 10s);
    MUST(!asked.get());
    alone.release();
    std::optional<lease> got;
    while (!(got = asked.get()))
        std::this_thread::sleep_for(5ms);
    got.reset();
    auto again = holdfast::start_acquire_exclusive(other, name, 10s);
    std::optional<holdfast::lease_set> set;
    while (!(set = again.get()))
        std::this_thread::sleep_for(5ms);
    MUST(set->held() && set->size() == HF_EXCLUSIVE_LEASES);
}

// Somebody asks for one lease of several, and the holder hears of it in each way.
static void is_asked(holdfast::client &client, holdfast::lease_set &&asked, const std::string &of)
{
    holdfast::client other;
    std::vector<holdfast::state> heard;
    pollfd poll_fd{client.fd(), POLLIN, 0};

    MUST(!asked.must_stop() && !*asked.reason());
    MUST(asked.wait_while(holdfast::state::released, 1h) == asked.state()); // at once
    while (asked.state() != holdfast::state::held) // a renewal may be late on a busy machine
        asked.wait_while(asked.state(), 10s);
    asked.on_change([](holdfast::state) noexcept { MUST(!"it was replaced"); });
    asked.on_change([&heard](holdfast::state now) noexcept { heard.push_back(now); });
    holdfast::lease_set set(std::move(asked)); // the callback comes along
    MUST(asked.state() == holdfast::state::released);

    std::thread asks([&] {
        std::this_thread::sleep_for(100ms);
        MUST(hf_ask(other.c(), of.data(), of.size()) == HF_OK);
    });
    while (!set.must_stop())
        set.wait_while(set.state(), holdfast::forever);
    asks.join();
    MUST(set.state() == holdfast::state::losing && set.held() && *set.reason());
    MUST(set.wait_while(holdfast::state::losing, 1ms) == holdfast::state::losing);
    while (heard.empty() || heard.back() != holdfast::state::losing) {
        MUST(poll(&poll_fd, 1, 10000) == 1);
        client.dispatch();
    }
    auto losing = std::count(heard.begin(), heard.end(), holdfast::state::losing);
    MUST(losing == 1); // once for all its leases
    set.on_change({});
    set.release();
    MUST(set.must_stop() && set.state() == holdfast::state::released && !*set.reason());
}

static void warns(const std::string &name)
{
    holdfast::client client;
    const std::string a = name + "a", b = name + "b", c = name + "c";

    is_asked(client, holdfast::lease_set(client, {a, b, c}), b);
    is_asked(client, holdfast::lease_set(client, {a}), a);
    is_asked(client, holdfast::acquire_exclusive(client, name), name);

    {
        holdfast::lease_set set(client, {a, b});
        struct sigaction action = {}, before = {};
        const itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
        std::error_code thrown;

        action.sa_handler = [](int) {};
        MUST(sigaction(SIGALRM, &action, &before) == 0);
        MUST(setitimer(ITIMER_REAL, &often, nullptr) == 0);
        while (!thrown) // it may just become late
            thrown = thrown_by([&] { set.wait_while(set.state(), holdfast::forever); });
        MUST(setitimer(ITIMER_REAL, &never, nullptr) == 0);
        MUST(sigaction(SIGALRM, &before, nullptr) == 0);
        MUST(thrown == errc::interrupted && set.held());
    }

    // One that ends is the end of all.
    holdfast::options wanted;
    wanted.ttl = 1s;
    wanted.max_hold = 300ms;
    holdfast::lease_set set(client, {a, b}, wanted);
    std::vector<holdfast::state> heard;
    pollfd poll_fd{client.fd(), POLLIN, 0};
    set.on_change([&heard](holdfast::state now) noexcept { heard.push_back(now); });
    while (set.state() < holdfast::state::lost)
        set.wait_while(set.state(), 10s);
    MUST(!set.held() && set.must_stop() && *set.reason());
    while (heard.empty() || heard.back() != set.state()) {
        MUST(poll(&poll_fd, 1, 10000) == 1);
        client.dispatch();
    }
    MUST(thrown_by([&] { set.release(); }) == errc::lost);
}

// Threads that share an object, and others of the process with objects of their own.
static void excludes(const std::string &name)
{
    holdfast::client client, other;
    holdfast::mutex shared(client, name), own(other, name), more(client, name + "2");
    std::vector<std::thread> threads;
    std::uint64_t highest = 0;
    int inside = 0,
        count =
            0; // guarded by the lock alone: TSan sees what the mutex orders among threads that share it

    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            for (int k = 0; k < 10; k++) {
                std::lock_guard guard(shared);

                MUST(++inside == 1 && shared.held() && shared.fence() > highest);
                highest = shared.fence();
                count++;
                inside--;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    MUST(count == 40);

    std::unique_lock lock(shared);
    MUST(!own.try_lock());
    MUST(!own.try_lock_for(50ms));
    MUST(!own.try_lock_until(std::chrono::system_clock::now() + 50ms));
    std::thread([&] { MUST(!shared.try_lock() && !shared.try_lock_for(50ms)); }).join();
    lock.unlock();
    MUST(own.try_lock_for(10s) && own.remaining() > 0ms && own.current().held());
    MUST(!lock.try_lock());
    own.unlock();
    MUST(own.try_lock_for(std::chrono::hours::max()));
    own.unlock();
    try {
        std::scoped_lock both(shared, more);
        throw std::runtime_error("in the middle");
    } catch (const std::runtime_error &) {
    }
    MUST(own.try_lock());
    own.unlock();

    // A failure leaves the object as it was, for the next.
    holdfast::mutex bad(client, std::string(256, 'x'));
    for (int i = 0; i < 2; i++) {
        MUST(thrown_by([&] { bad.lock(); }) == errc::bad_name);
        MUST(thrown_by([&] { (void)bad.try_lock(); }) == errc::bad_name);
    }
}

// The job of docs/examples: a line in FILE for each hold, for judging that no two overlap.
static void counts(const std::string &name)
{
    holdfast::client client;
    const char *file = std::getenv("CXX_USER_FILE");

    for (int i = 0; i < 20; i++) {
        lease held(client, name);
        std::ofstream out(file, std::ios::app);

        out << "begin " << held.fence() << std::endl;
        std::this_thread::sleep_for(2ms);
        MUST(held.held());
        out << "end " << held.fence() << std::endl;
    }
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(const std::string &name);
    } cases[] = {{"holds", holds},     {"itself", waits_for_itself},
                 {"moves", moves},     {"fails", fails},
                 {"forks", forks},     {"hears", hears},
                 {"beats", beats},     {"pends", pends},
                 {"several", several}, {"shares", shares},
                 {"warns", warns},     {"excludes", excludes},
                 {"counts", counts}};

    if (argc != 3)
        return 2;
    for (const auto &each : cases)
        if (std::strcmp(each.name, argv[1]) == 0) {
            each.run(argv[2]);
            return 0;
        }
    return 2;
}

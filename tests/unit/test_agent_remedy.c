/* agent/redis/acl.h: what is to be done about a server that refuses, in words that a row of `holdfast nodes` has room
 * for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/acl.h"
#include "shm/compiler.h"
#include "shm/layout.h"

_Static_assert(REMEDY_SIZE == sizeof(((struct hf_node_row *)0)->error), "a remedy is not cut");

static void says(const char *command, const char *text, bool named, const char *want)
{
    char said[REMEDY_SIZE];

    assert_string_equal(remedy_of(command, text, named, said), want);
}

static void a_command_that_is_not_there(HF_UNUSED void **state)
{
    static const char allow[] =
        "allow SCRIPT there, which rename-command or a managed service forbids";

    says("SCRIPT LOAD", "ERR unknown command 'SCRIPT', with args beginning with: 'LOAD'", true,
         "allow SCRIPT LOAD there, which rename-command or a managed service forbids");
    says("SCRIPT", "ERR unknown command `SCRIPT`, with args beginning with: ", true, allow);
    says("SCRIPT", "ERR Unknown subcommand or wrong number of arguments for 'LOAD'", true, allow);
    says("EVALSHA",
         "ERR Unknown Redis command called from script script: 2af6, on @user_script:12.", true,
         "allow all commands of holdfastd(8) there: one is renamed or forbidden");
    says("A COMMAND WITH A LONG NAME", "ERR unknown command", true,
         "allow A COMMAND WI there, which rename-command or a managed service forbids");
}

static void whoever_wants_something_else(HF_UNUSED void **state)
{
    says("INFO", "NOAUTH Authentication required.", false,
         "give this node's user and password, which it wants");
    says("INFO", "NOPERM this user has no permissions to run the 'info' command", false,
         "give its user the rights of holdfastd(8)");
    says("INFO", "DENIED Redis is running in protected mode because", false,
         "set a password on it: it is in protected mode");
    says("INFO", "ERR max number of clients reached", false,
         "raise its maxclients: it takes no more connections");
    says("SELECT", "ERR DB index is out of range", false,
         "give the number of a database that this server has");
    says("INFO", "ERR unsupported", false,
         "name the server itself: what answers there, perhaps a proxy, is no Redis");
}

static void what_says_it_all_by_itself(HF_UNUSED void **state)
{
    says("EVALSHA", "LOADING Redis is loading the dataset in memory", true, "");
    says("EVALSHA", "ERR something", true, "");
    says("EVALSHA", "", true, "");
}

static void who_is_no_node(HF_UNUSED void **state)
{
    assert_string_equal(remedy_of_info("redis_version:7\r\nredis_mode:sentinel\r\n"),
                        "name a master itself: this is a Sentinel");
    assert_string_equal(remedy_of_info("hello"),
                        "name the server itself: what answers there is no Redis");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_that_is_not_there),
        cmocka_unit_test(whoever_wants_something_else),
        cmocka_unit_test(what_says_it_all_by_itself),
        cmocka_unit_test(who_is_no_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

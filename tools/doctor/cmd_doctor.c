/* holdfast doctor: what is wrong with this host's installation? */
#include <stdarg.h>
#include <stdio.h>

#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/commands.h"
#include "tools/doctor/doctor_internal.h"
#include "tools/output/words.h"
#include "tools/reader/reader_args.h"

/* The things that doctor does not check. */
static void cmd_doctor_tell_limits(struct doctor *doctor)
{
    doctor_report(doctor, FINDING_NOTE, "limits.pause", NULL,
                  "doctor cannot see a pause or snapshot of the whole machine that its clocks do "
                  "not show; compare fences in the resource");
    doctor_report(doctor, FINDING_NOTE, "limits.rates", NULL,
                  "clocks whose rates differ by more than 1 %%, and other software that deletes or "
                  "sets the keys, are outside of what the locks promise (docs/SAFETY.md)");
}

static void cmd_doctor_look(struct doctor *doctor, const char *agent, const struct place places[],
                            int count)
{
    char why[READER_WHY_SIZE] = "";
    struct reader reader;
    struct life life;
    int status = reader_open(agent, &reader, why, sizeof(why));

    if (status == HF_OK) {
        life_judge(&reader.table, &life);
        doctor_agent_look(doctor, &reader, &life);
        doctor_nodes_look(doctor, &reader, &life);
        doctor_fleet_look(doctor, &reader, &life);
        doctor_rules_look(doctor, &reader, &life);
        reader_close(&reader);
    } else {
        doctor_agent_missing(doctor, status, why, places, count);
    }
    doctor_clock_look(doctor);
    doctor_leftovers_look(doctor, places, count);
    doctor_jobs_look(doctor);
    cmd_doctor_tell_limits(doctor);
}

static void cmd_doctor_examine_json(struct doctor *doctor, const char *agent,
                                    const struct place places[], int count)
{
    struct json_out out;

    doctor->json = &out;
    json_begin(&out, stdout);
    json_member(&out, "agent_name", json_string(places[0].agent));
    json_array_begin(&out, "findings");
    cmd_doctor_look(doctor, agent, places, count);
    json_array_end(&out);
    json_member(&out, "warnings", json_integer(doctor->warnings));
    json_member(&out, "failures", json_integer(doctor->failures));
    json_end(&out);
}

static void cmd_doctor_examine(struct doctor *doctor, const char *agent,
                               const struct place places[], int count)
{
    cmd_doctor_look(doctor, agent, places, count);
    if (doctor->failures || doctor->warnings)
        printf("\n%u failure%s, %u warning%s\n", doctor->failures, doctor->failures == 1 ? "" : "s",
               doctor->warnings, doctor->warnings == 1 ? "" : "s");
    else
        puts("\nall is well");
}

int cmd_doctor(int argc, char **argv)
{
    struct place places[PLACES_MAX];
    char why[READER_WHY_SIZE] = "";
    struct doctor doctor = {0};
    struct reader_args args;
    int count, code = reader_args_parse(
                   argc, argv, "jc", "doctor [options]",
                   "Looks for what is wrong with this host's agent, its nodes and its leftovers, "
                   "and says what to do.\n"
                   "Exit code: 0 nothing needs attention, 3 something does.",
                   &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    count = places_find(args.agent, places, why, sizeof(why));
    if (count < 0) {
        fprintf(stderr, "holdfast doctor: %s\n", why);
        return exit_code_of(count);
    }
    doctor.clean = args.clean;
    (args.json ? cmd_doctor_examine_json : cmd_doctor_examine)(&doctor, args.agent, places, count);
    return doctor.failures || doctor.warnings ? EXIT_ATTENTION : EXIT_OK;
}

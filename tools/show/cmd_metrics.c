/* holdfast metrics: the agent's table as metrics, with or without a living agent. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tools/reader/exposition.h"
#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/exit_code.h"
#include "tools/common/wall.h"
#include "tools/output/format.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/show/show.h"
#include "tools/show/textfile.h"

/* An agent and what is known of it. */
struct subject {
    struct reader reader;
    struct life life;
    int code;                  /* of its table: EXIT_OK, or why there is none */
    char why[READER_WHY_SIZE]; /* the same in words */
};

/* The place where an agent would be tells its name even if there is none. */
static int cmd_metrics_look(const char *agent, struct subject *ret)
{
    struct place places[PLACES_MAX];
    int status = places_find(agent, places, ret->why, sizeof(ret->why));

    ret->code = exit_code_of(status);
    if (status < 0)
        return ret->code;
    ret->reader.place = places[0];
    status = reader_open(agent, &ret->reader, ret->why, sizeof(ret->why));
    ret->code = exit_code_of(status);
    if (status == HF_OK)
        life_judge(&ret->reader.table, &ret->life);
    else if (!*ret->why)
        snprintf(ret->why, sizeof(ret->why), "%s", hf_status_text(status));
    /* A table that cannot be read says nothing of the agent: no metrics are better than false ones. */
    return status == HF_OK || status == HF_ENOAGENT ? EXIT_OK : ret->code;
}

static void cmd_metrics_write_metrics(const struct subject *s, FILE *out)
{
    bool known = s->code == EXIT_OK;
    const struct exposition e = {
        .agent = s->reader.place.agent,
        .state = known ? life_verdict_name(s->life.verdict) : HF_AGENT_NONE,
        .now = reader_now(),
        .wall_ms = wall_now_ms(),
    };

    exposition_write(&e, known ? &s->reader.table : NULL, out);
}

static int cmd_metrics_say(int code, const char *why)
{
    fprintf(stderr, "holdfast metrics: %s\n", why);
    return code;
}

static int cmd_metrics_write_file(const struct subject *s, const char *path)
{
    char file[PATH_MAX], why[4 * PATH_MAX + 256] = "", *text = NULL;
    size_t length = 0;
    FILE *out;
    int code = textfile_path(path, s->reader.place.agent, file, sizeof(file), why, sizeof(why));

    if (code != EXIT_OK)
        return cmd_metrics_say(code, why);
    out = open_memstream(&text, &length);
    if (out)
        cmd_metrics_write_metrics(s, out);
    if (!out || fclose(out) != 0) {
        free(text);
        return cmd_metrics_say(EXIT_FAILED, "out of memory");
    }
    code = textfile_write(file, text, length, why, sizeof(why));
    free(text);
    return code == EXIT_OK ? code : cmd_metrics_say(code, why);
}

static int cmd_metrics_judge(const struct subject *s)
{
    if (s->code != EXIT_OK)
        return cmd_metrics_say(s->code, s->why);
    life_warn("metrics", s->reader.place.agent, &s->life);
    return s->life.verdict == LIFE_ALIVE ? EXIT_OK : EXIT_ATTENTION;
}

int cmd_metrics(int argc, char **argv)
{
    struct subject subject = {.code = EXIT_OK};
    struct reader_args args;
    int code = reader_args_parse(
        argc, argv, "X", "metrics [options]",
        "Shows the agent's metrics for Prometheus, with or without a living agent\n"
        "(docs/METRICS.md).\n"
        "Exit code: 0 it is alive, 3 it hangs, is dead or was stopped, 69 there is none.",
        &args);

    if (code != READER_ARGS_GO_ON || (code = args_none(argc, argv)) != EXIT_OK)
        return code;
    code = cmd_metrics_look(args.agent, &subject);
    if (code != EXIT_OK)
        return cmd_metrics_say(code, subject.why);
    if (args.textfile)
        code = cmd_metrics_write_file(&subject, args.textfile);
    else
        cmd_metrics_write_metrics(&subject, stdout);
    if (code == EXIT_OK)
        code = cmd_metrics_judge(&subject);
    reader_close(&subject.reader);
    return code;
}

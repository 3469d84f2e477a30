/* holdfast metrics: the agent's table as metrics, with or without a living agent. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/status.h"
#include "tools/common/args.h"
#include "tools/common/since.h"
#include "tools/common/text.h"
#include "tools/output/words.h"
#include "tools/reader/exposition.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"
#include "tools/commands.h"
#include "tools/show/show_internal.h"

/* --- a file for the textfile collector -------------------------------------------------------- */

#define SHOWN_SIZE (4 * PATH_MAX)

static bool textfile_ends_with(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);

    return length > tail && strcmp(text + length - tail, suffix) == 0;
}

/* Where the text goes: `path` itself, or holdfast-AGENT.prom below it if it is a directory. EXIT_OK, or EXIT_USAGE with
 * a sentence in `why`: the collector would not read that name. */
static int textfile_path(const char *path, const char *agent, char *ret_path, size_t size,
                         char *why, size_t why_size)
{
    const char *slash = *path && path[strlen(path) - 1] == '/' ? "" : "/";
    char shown[SHOWN_SIZE];
    struct stat st;
    int made;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        made = snprintf(ret_path, size, "%s%sholdfast-%s" TEXTFILE_SUFFIX, path, slash, agent);
    else
        made = snprintf(ret_path, size, "%s", path);
    if (made > 0 && (size_t)made < size && textfile_ends_with(ret_path, TEXTFILE_SUFFIX))
        return EXIT_OK;
    snprintf(why, why_size,
             "give a directory that exists, or a file whose name ends with " TEXTFILE_SUFFIX
             ": '%s' is neither, and node_exporter reads no other names",
             text_escape_str(shown, sizeof(shown), path));
    return EXIT_USAGE;
}

/* Says what failed by errno. */
static int textfile_failed(const char *what, const char *path, char *why, size_t why_size)
{
    int error = errno;
    bool denied = error == EACCES || error == EPERM || error == EROFS;
    char shown[SHOWN_SIZE];

    snprintf(why, why_size, "%s: cannot %s %s: %s",
             denied            ? "run it as a user who may write there"
             : error == ENOENT ? "make the directory"
             : error == ENOSPC ? "make room on that file system"
                               : "give another path",
             what, text_escape_str(shown, sizeof(shown), path), strerror(error));
    return denied ? EXIT_DENIED : EXIT_FAILED;
}

static bool textfile_write_all(int fd, const char *text, size_t length)
{
    while (length) {
        ssize_t done = write(fd, text, length);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        text += done;
        length -= (size_t)done;
    }
    return true;
}

/* Replaces the file by the text, with mode 0644, by a new one beside it that is renamed: whoever reads sees the one or the
 * other as a whole. EXIT_OK; EXIT_DENIED, EXIT_FAILED with a sentence in `why`, and the file is as it was. */
static int textfile_write(const char *path, const char *text, size_t length, char *why,
                          size_t why_size)
{
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    char beside[PATH_MAX];
    int fd, code;

    /* Hidden, and without the suffix: the collector does not read it. */
    if (snprintf(beside, sizeof(beside), "%.*s.%s.XXXXXX", dir, path, path + dir) >=
        (int)sizeof(beside)) {
        errno = ENAMETOOLONG;
        return textfile_failed("write", path, why, why_size);
    }
    fd = mkstemp(beside);
    if (fd < 0)
        return textfile_failed("write", path, why, why_size);
    code = EXIT_OK;
    if (!textfile_write_all(fd, text, length) || fchmod(fd, 0644) < 0)
        code = textfile_failed("write", path, why, why_size);
    if (close(fd) < 0 && code == EXIT_OK)
        code = textfile_failed("write", path, why, why_size);
    if (code == EXIT_OK && rename(beside, path) < 0)
        code = textfile_failed("replace", path, why, why_size);
    if (code != EXIT_OK)
        (void)unlink(beside);
    return code;
}

/* --- metrics ---------------------------------------------------------------------------------- */

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

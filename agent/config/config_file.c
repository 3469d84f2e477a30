/* Reads the file, line by line: a fault in one does not keep those in others from being found. */
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/config/config_load.h"
#include "shm/suggest.h"
#include "shm/status.h"

struct reader {
    struct config_load *load;
    FILE *file;
    int line;      /* that was read last, from 1 */
    bool expected; /* a setting in it that inih has not told of */
    bool cut;      /* inih takes a part of it with an @ for a comment */
    int error;     /* errno */
};

/* What every user may read in the history: a key that looks like an address may hold a password. */
static const char *config_file_shown(const char *key)
{
    return strpbrk(key, "@:/") ? "..." : key;
}

/* A name that is nearly known counts as the setting that was meant: it is not missing, too. */
static void config_file_unknown(struct config_load *l, int line, const char *key)
{
    struct suggestion meant = {0};

    for (int i = 0; i < CONFIG_ROWS; i++)
        if (config_rows[i].where != CONFIG_COMMAND_LINE)
            suggest_try(&meant, key, strlen(key), config_rows[i].key);
    if (!meant.known) {
        (void)config_wrong_line(l, line, "there is no setting '%.64s'; see holdfast.conf(5)",
                                config_file_shown(key));
        return;
    }
    l->faulty[config_row_find(meant.known, strlen(meant.known))] = true;
    (void)config_wrong_line(l, line, "there is no setting '%.64s'; did you mean '%s'?", key,
                            meant.known);
}

static void config_file_take_setting(struct config_load *l, int line, const char *key,
                                     const char *value)
{
    struct config_report *report = l->report;
    int row = config_row_find(key, strlen(key)), nodes = l->config.node_count;
    char why[sizeof(report->faults[0].text)];

    if (row < 0) {
        config_file_unknown(l, line, key);
        return;
    }
    if (config_rows[row].where == CONFIG_COMMAND_LINE) {
        (void)config_wrong_line(
            l, line, "give '%.64s' on the command line: it holds for one start only", key);
        return;
    }
    if (l->origin[row] == ORIGIN_COMMAND_LINE)
        return;
    if (l->origin[row] == ORIGIN_FILE && !config_row_repeats(&config_rows[row])) {
        (void)config_wrong_line(l, line, "'%.64s' is set twice, first in line %d", key,
                                report->line[row]);
        return;
    }
    l->origin[row] = ORIGIN_FILE;
    if (!report->line[row])
        report->line[row] = line;
    if (config_row_set(&config_rows[row], &l->config, value, why, sizeof(why)) < 0) {
        l->faulty[row] = true;
        (void)config_wrong_line(l, line, "%s", why);
    } else if (l->config.node_count > nodes) {
        report->node_line[nodes] = line;
        l->config.nodes[nodes].line = line;
    }
}

/* inih's handler. config_file_read_line() has judged sections. */
static int config_file_on_setting(void *arg, const char *section, const char *key,
                                  const char *value)
{
    struct reader *r = arg;

    (void)section;
    r->expected = false;
    /* (!) Its password would be cut, and a part of it be taken for the host. */
    if (r->cut && strcmp(key, "node") == 0 && strstr(value, "://") && !strchr(value, '@')) {
        r->load->faulty[CONFIG_ID_node] = true;
        (void)config_wrong_line(
            r->load, r->line,
            "node: write %%3B for a ; behind a blank, and %%20 for the blank, or use "
            "password_file: what follows is a comment otherwise, and this one has "
            "an @ in it");
        return 1;
    }
    config_file_take_setting(r->load, r->line, key, value);
    return 1;
}

static void config_file_miss_setting(struct reader *r)
{
    if (r->expected)
        (void)config_wrong_line(r->load, r->line, "write \"key = value\"");
    r->expected = false;
}

/* Whether what is a comment behind a setting has an @. */
static bool config_file_cuts_at(const char *line)
{
    for (const char *c = line; *c; c++)
        if (*c == ';' && c > line && isspace((unsigned char)c[-1]))
            return strchr(c, '@') != NULL;
    return false;
}

/* inih tells nothing of lines that are no settings. */
static void config_file_expect_setting(struct reader *r, const char *line)
{
    if (r->line == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0)
        line += 3;
    line += strspn(line, " \t\n\v\f\r");
    if (*line == '[')
        (void)config_wrong_line(r->load, r->line, "remove this line: there are no [sections]");
    else
        r->expected = *line && *line != ';' && *line != '#';
    r->cut = config_file_cuts_at(line);
}

/* inih would read the rest of a long line as a line of its own: it gets an empty one instead. */
static char *config_file_read_line(char *buffer, int size, void *arg)
{
    struct reader *r = arg;
    char *line;
    int c;

    config_file_miss_setting(r);
    errno = 0;
    line = fgets(buffer, size, r->file);
    if (!line) {
        r->error = ferror(r->file) ? errno : 0;
        return NULL;
    }
    r->line++;
    if (strlen(line) + 1 == (size_t)size && line[size - 2] != '\n' && !feof(r->file)) {
        do
            c = fgetc(r->file);
        while (c != EOF && c != '\n');
        (void)config_wrong_line(r->load, r->line, "shorten it%s: the line is longer than %d bytes",
                                strstr(line, "://") ? " (password_file takes a password)" : "",
                                INI_MAX_LINE - 2);
        strcpy(buffer, "\n");
        return line;
    }
    config_file_expect_setting(r, line);
    return line;
}

int config_file_read(struct config_load *l)
{
    const char *path = l->report->file;
    struct reader r = {.load = l};
    struct stat st;
    int rc;

    /* At the start it may be a pipe. A reload would wait for its writer. */
    if (l->again && stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return config_wrong_line(l, 0, "cannot read it again: it is not a regular file");
    r.file = fopen(path, "re");
    if (!r.file)
        return config_wrong_line(l, 0, "cannot read it: %s", strerror(errno));
    l->file_is_public = fstat(fileno(r.file), &st) == 0 && (st.st_mode & S_IROTH);
    rc = ini_parse_stream(config_file_read_line, &r, config_file_on_setting, &r);
    config_file_miss_setting(&r);
    (void)fclose(r.file);
    if (r.error)
        return config_wrong_line(l, 0, "cannot read it: %s", strerror(r.error));
    if (rc < 0)
        return config_wrong_line(l, 0, "out of memory");
    return HF_OK;
}

/* Reads the file, line by line: a fault in one does not keep those in others from being found. */
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/given_file.h"
#include "agent/config/config_load.h"
#include "shm/status.h"
#include "shm/text.h"
#include "shm/version.h"

#define FILE_MOST (1 << 20) /* bytes: ten thousand lines of a hundred */

struct reader {
    struct config_load *load;
    FILE *file;    /* its text, in memory */
    int line;      /* that was read last, from 1 */
    bool expected; /* a setting in it that inih has not told of */
    bool cut;      /* inih takes a part of it with an @ for a comment */
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
    line = fgets(buffer, size, r->file);
    if (!line)
        return NULL;
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

/* (!) No more than the limit: a file may be made to have no end. HF_OK; HF_EINVAL, said. `ret_length` is how much was read, in both
 * cases. */
static int config_file_read_bytes(struct config_load *l, int fd, char *text, size_t *ret_length)
{
    ssize_t got;

    *ret_length = 0;
    while ((got = read(fd, text + *ret_length, FILE_MOST + 1 - *ret_length)) > 0)
        *ret_length += (size_t)got;
    if (got < 0)
        return config_wrong_line(l, 0, "cannot read it: %s", strerror(errno));
    if (*ret_length > FILE_MOST)
        return config_wrong_line(
            l, 0, "it is larger than 1 MiB; shorten it, or name the agent's own file");
    return HF_OK;
}

static int config_file_parse(struct config_load *l, char *text, size_t length)
{
    struct reader r = {.load = l};
    int rc;

    if (length == 0)
        text[length++] = '\n';
    r.file = fmemopen(text, length, "r");
    if (!r.file)
        return config_wrong_line(l, 0, "out of memory");
    rc = ini_parse_stream(config_file_read_line, &r, config_file_on_setting, &r);
    config_file_miss_setting(&r);
    (void)fclose(r.file);
    return rc < 0 ? config_wrong_line(l, 0, "out of memory") : HF_OK;
}

int config_file_read(struct config_load *l)
{
    struct stat st;
    int fd = given_file_try(l->report->file, &st), rc;
    size_t length = 0;
    char *text;

    if (fd == HF_ESYS)
        return config_wrong_line(l, 0, "cannot read it: %s", strerror(errno));
    if (fd < 0)
        return config_wrong_line(l, 0,
                                 "cannot read it: it is not a regular file; give the path of one");
    l->file_is_public = st.st_mode & S_IROTH;
    text = malloc(FILE_MOST + 1);
    if (!text) {
        (void)close(fd);
        return config_wrong_line(l, 0, "out of memory");
    }
    rc = config_file_read_bytes(l, fd, text, &length);
    (void)close(fd);
    if (rc == HF_OK)
        rc = config_file_parse(l, text, length);
    explicit_bzero(text, length); /* passwords */
    free(text);
    return rc;
}

/* --- the command line ------------------------------------------------------------------------- */

#define HELP_COLUMN 26
#define HELP_WIDTH  78

/* --- help, made of the rows ------------------------------------------------------------------- */

static void config_args_print_wrapped(const char *text, int indent)
{
    int column = indent;

    while (*text) {
        int word = (int)strcspn(text, " ");

        if (column > indent && column + 1 + word > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent)
            column += printf(" ");
        column += printf("%.*s", word, text);
        text += word;
        text += strspn(text, " ");
    }
    printf("\n");
}

static void config_args_print_option(const char *key, const char *argument, const char *doc)
{
    int column = printf("  --");

    for (const char *p = key; *p; p++)
        column += printf("%c", *p == '_' ? '-' : *p);
    column += printf("%s%s", *argument ? " " : "", argument);
    if (column > HELP_COLUMN - 2) {
        printf("\n");
        column = 0;
    }
    printf("%*s", HELP_COLUMN - column, "");
    config_args_print_wrapped(doc, HELP_COLUMN);
}

static void config_args_print_help(void)
{
    char doc[512];

    printf("usage: holdfastd --node [ID=]ADDRESS... [OPTION]...\n"
           "       holdfastd --dev [N] [OPTION]...\n"
           "       holdfastd --check-config FILE [--offline] [--who NAME] [OPTION]...\n"
           "The lock agent of this host: takes and keeps locks on a majority of Redis nodes.\n\n");
    for (int i = 0; i < CONFIG_ROWS; i++) {
        const struct config_row *row = &config_rows[i];
        bool tell = *row->standard && row->type != CONFIG_FLAG;

        snprintf(doc, sizeof(doc), "%s%s%s%s", row->doc, tell ? " (default " : "",
                 tell ? row->standard : "", tell ? ")" : "");
        config_args_print_option(row->key, row->argument, doc);
    }
    config_args_print_option(
        "config", "FILE",
        "a file of such settings, one \"key = value\" per line; the command line goes "
        "before it. A system agent reads /etc/holdfast/NAME.conf if that exists");
    config_args_print_option(
        "check-config", "FILE",
        "say all that is wrong with the file, what a restart with it would do to leases that "
        "are held, and what its nodes say, and exit: 0, or 78 if it must not be used");
    config_args_print_option("offline", "", "with --check-config: look at neither agent nor nodes");
    config_args_print_option(
        "who", "NAME",
        "with --check-config: say who may take, see and force the lock NAME by the rules "
        "of the file");
    config_args_print_option("print-config", "", "print the settings that would be used, and exit");
    config_args_print_option("help", "", "print this help, and exit");
    config_args_print_option("version", "", "print the version, and exit");
    printf("\nMore in holdfastd(8) and holdfast.conf(5).\n");
}

/* --- options without a row -------------------------------------------------------------------- */

enum special {
    SPECIAL_HELP,
    SPECIAL_VERSION,
    SPECIAL_PRINT,
    SPECIAL_CONFIG,
    SPECIAL_CHECK,
    SPECIAL_OFFLINE,
    SPECIAL_WHO,
    SPECIALS
};

static const char *const special_names[SPECIALS] = {
    "help", "version", "print-config", "config", "check-config", "offline", "who"};

static bool config_args_has_value(enum special which)
{
    return which == SPECIAL_CONFIG || which == SPECIAL_CHECK || which == SPECIAL_WHO;
}

static enum special config_args_find_special(const char *option, size_t length)
{
    int which = 0;

    while (which < SPECIALS && (strlen(special_names[which]) != length ||
                                strncmp(option, special_names[which], length) != 0))
        which++;
    return (enum special)which;
}

/* Both name it. */
static int config_args_take_file(struct config_load *l, const char *option, const char *value)
{
    if (!value)
        return config_wrong(l, "--%s needs a value: FILE", option);
    if (l->file)
        return config_wrong(l, "--%s: a file is given already: '%.64s'", option, l->file);
    l->file = value;
    return HF_OK;
}

static int config_args_take_special(struct config_load *l, enum special which, const char *value)
{
    switch (which) {
    case SPECIAL_HELP:
        config_args_print_help();
        return HF_ECANCELED;
    case SPECIAL_VERSION:
        printf("holdfastd %s\n", HOLDFAST_VERSION);
        return HF_ECANCELED;
    case SPECIAL_PRINT:
        l->print_config = true;
        return HF_OK;
    case SPECIAL_CHECK:
        l->report->check = true;
        return config_args_take_file(l, special_names[which], value);
    case SPECIAL_CONFIG:
        return config_args_take_file(l, special_names[which], value);
    case SPECIAL_OFFLINE:
        l->report->offline = true;
        return HF_OK;
    case SPECIAL_WHO:
        l->report->who = value;
        if (value && *value && strlen(value) <= HF_NAME_MAX)
            return HF_OK;
        return config_wrong(l, "--who needs the name of a lock, 1 to %d bytes", HF_NAME_MAX);
    case SPECIALS:
        break;
    }
    return HF_EINVAL;
}

/* --- options with one ------------------------------------------------------------------------- */

static bool config_args_all_digits(const char *text)
{
    return text && *text && text[strspn(text, "0123456789")] == '\0';
}

static int config_args_take_option(struct config_load *l, int row, const char *value)
{
    if (!value)
        return config_wrong(l, "--%s needs a value: %s", config_rows[row].key,
                            config_rows[row].argument);
    l->origin[row] = ORIGIN_COMMAND_LINE;
    if (config_row_repeats(&config_rows[row])) {
        if (l->repeated_count < CONFIG_REPEATED_MAX) {
            l->repeated[l->repeated_count].row = row;
            l->repeated[l->repeated_count++].value = value;
        }
        return HF_OK;
    }
    if (l->option[row])
        return config_wrong(l, "--%s is given twice", config_rows[row].key);
    l->option[row] = value;
    return HF_OK;
}

static int config_args_unknown_option(struct config_load *l, const char *option, size_t length)
{
    int shown = (int)(length < 64 ? length : 64);
    struct suggestion meant = {0};
    char text[32];

    for (int i = 0; i < SPECIALS; i++)
        suggest_try(&meant, option, length, special_names[i]);
    for (int i = 0; i < CONFIG_ROWS; i++)
        suggest_try(&meant, option, length, config_rows[i].key);
    if (!meant.known)
        return config_wrong(l, "there is no option '--%.*s'; see holdfastd --help", shown, option);
    snprintf(text, sizeof(text), "%s", meant.known);
    for (char *p = text; *p; p++)
        if (*p == '_')
            *p = '-';
    return config_wrong(l, "there is no option '--%.*s'; did you mean '--%s'?", shown, option,
                        text);
}

int config_command_line(struct config_load *l, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): NULL comes at argc, not before. */
        const char *option = argv[i] + 2, *value = strchr(argv[i], '='), *next = argv[i + 1];
        size_t length;
        enum special special;
        bool takes_next;
        int row, rc;

        if (strncmp(argv[i], "--", 2) != 0 || !*option)
            return config_wrong(l, "unexpected argument '%.64s'; see holdfastd --help", argv[i]);
        length = value ? (size_t)(value - option) : strlen(option);
        if (value)
            value++;
        row = config_row_find(option, length);
        special = row < 0 ? config_args_find_special(option, length) : SPECIALS;
        if (row < 0 && special == SPECIALS)
            return config_args_unknown_option(l, option, length);
        takes_next = row < 0                               ? config_args_has_value(special)
                     : config_rows[row].type == CONFIG_DEV ? config_args_all_digits(next)
                                                           : config_rows[row].type != CONFIG_FLAG;
        if (!value && takes_next && next) {
            value = next;
            i++;
        } else if (!value && row >= 0 && !takes_next)
            value = config_rows[row].type == CONFIG_FLAG ? "yes" : config_rows[row].standard;
        rc = row < 0 ? config_args_take_special(l, special, value)
                     : config_args_take_option(l, row, value);
        if (rc < 0)
            return rc;
    }
    if (l->report->offline && !l->report->check)
        return config_wrong(l, "--offline goes with --check-config FILE");
    if (l->report->who && !l->report->check)
        return config_wrong(l, "--who goes with --check-config FILE");
    return HF_OK;
}

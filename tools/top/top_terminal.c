#include "tools/top/top_internal.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/args.h"

#define WIDTH_ELSE 80
#define WIDTH_MOST 1000

/* A screen of its own, without a cursor; and back. */
#define ENTER "\x1b[?1049h\x1b[?25l"
#define LEAVE "\x1b[?25h\x1b[?1049l"

/* (!) A line is emptied before it is written: where it fills the width the cursor stands on its last character after it. */
#define HOME       "\x1b[H"
#define EMPTY_LINE "\x1b[K"
#define EMPTY_REST "\x1b[J"

static struct termios its_modes, our_modes; /* to be given back; in which keys come at once */
static volatile sig_atomic_t entered, modes_changed;
static volatile sig_atomic_t ended, stopped, continued, resized;

/* --- what it is ---------------------------------------------------------------------------------- */

bool top_terminal_is_there(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

bool top_terminal_has_colours(void)
{
    const char *no = getenv("NO_COLOR");

    return top_terminal_is_there() && !(no && *no);
}

bool top_terminal_has_unicode(void)
{
    return setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void top_terminal_size(int *ret_width, int *ret_height)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    uint64_t width;

    *ret_height = 0;
    *ret_width =
        columns && args_number(columns, 1, WIDTH_MOST, &width) == 0 ? (int)width : WIDTH_ELSE;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row)
        return;
    *ret_width = size.ws_col < WIDTH_MOST ? size.ws_col : WIDTH_MOST;
    *ret_height = size.ws_row;
}

/* --- taken and given back ------------------------------------------------------------------------ */

static void terminal_write_all(const char *text, size_t length)
{
    ssize_t done;

    while (length && (done = write(STDOUT_FILENO, text, length)) > 0) {
        text += done;
        length -= (size_t)done;
    }
}

/* Async-signal-safe. */
static void terminal_give_back(void)
{
    if (entered) {
        entered = 0;
        terminal_write_all(LEAVE, sizeof(LEAVE) - 1);
    }
    if (modes_changed) {
        modes_changed = 0;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &its_modes);
    }
}

static void terminal_take_over(void)
{
    entered = 1;
    terminal_write_all(ENTER, sizeof(ENTER) - 1);
    if (tcgetattr(STDIN_FILENO, &its_modes) < 0)
        return; /* it has no keys */
    our_modes = its_modes;
    our_modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    our_modes.c_cc[VMIN] = 0;
    our_modes.c_cc[VTIME] = 0;
    modes_changed = 1;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &our_modes);
}

/* --- signals ------------------------------------------------------------------------------------- */

static void terminal_on_end(int signal)
{
    (void)signal;
    ended = 1;
}

static void terminal_on_stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static void terminal_on_continue(int signal)
{
    (void)signal;
    continued = 1;
}

static void terminal_on_resize(int signal)
{
    (void)signal;
    resized = 1;
}

/* Whatever else ends the process: it ends so after all. */
static void terminal_on_death(int number)
{
    terminal_give_back();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static bool terminal_is_in(const int *signals, size_t count, int number)
{
    for (size_t i = 0; i < count; i++)
        if (signals[i] == number)
            return true;
    return false;
}

#define IS_IN(list, number) terminal_is_in(list, sizeof(list) / sizeof((list)[0]), number)

/* (!) Signals are taken only while the program waits, but for those that end it at once. */
static void terminal_catch_signals(bool live)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static const int left[] = {SIGKILL, SIGSTOP, SIGTTIN, SIGTTOU, SIGCHLD, SIGURG};
    sigset_t waited;

    sigemptyset(&waited);
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction action = {.sa_handler = terminal_on_death};
        bool waits = true;

        if (number == SIGPIPE)
            action.sa_handler = SIG_IGN;
        else if (IS_IN(ends, number))
            action.sa_handler = terminal_on_end;
        else if (number == SIGCONT)
            action.sa_handler = terminal_on_continue;
        else if (number == SIGWINCH)
            action.sa_handler = terminal_on_resize;
        else if (number == SIGTSTP && live)
            action.sa_handler = terminal_on_stop;
        else
            waits = false;
        if (IS_IN(left, number) || (number == SIGTSTP && !live) || (!waits && !live))
            continue;
        /* Numbers that the C library keeps to itself are refused. */
        if (sigaction(number, &action, NULL) == 0 && waits)
            sigaddset(&waited, number);
    }
    sigprocmask(SIG_BLOCK, &waited, NULL);
}

void top_terminal_open(void)
{
    terminal_catch_signals(true);
    (void)atexit(terminal_give_back);
    terminal_take_over();
}

void top_terminal_close(void)
{
    terminal_give_back();
}

void top_terminal_watch(void)
{
    terminal_catch_signals(false);
}

/* ^Z: the shell gets its screen, and gives it back with SIGCONT. */
static void terminal_stop(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL}, before;
    sigset_t stops;

    stopped = 0;
    terminal_give_back();
    sigemptyset(&stops);
    sigaddset(&stops, SIGTSTP);
    sigaction(SIGTSTP, &action, &before);
    (void)raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stops, NULL); /* it stops here */
    sigprocmask(SIG_BLOCK, &stops, NULL);
    sigaction(SIGTSTP, &before, NULL);
    terminal_take_over();
}

/* --- frames and wishes --------------------------------------------------------------------------- */

bool top_terminal_show(const char *text, size_t length)
{
    const char *end = text + length;

    fputs(HOME, stdout);
    for (const char *line = text; line < end;) {
        const char *after = memchr(line, '\n', (size_t)(end - line));

        fputs(after + 1 < end ? EMPTY_LINE : EMPTY_REST, stdout);
        fwrite(line, 1, (size_t)(after - line), stdout);
        line = after + 1;
        if (line < end) /* behind the last one it would scroll */
            fputs("\r\n", stdout);
    }
    return fflush(stdout) == 0;
}

/* Keys that came; false: there is no terminal any more. */
static bool terminal_read_keys(bool *ret_quit, bool *ret_any)
{
    char keys[64];
    ssize_t got = read(STDIN_FILENO, keys, sizeof(keys));

    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    for (ssize_t i = 0; i < got; i++)
        *ret_quit |= keys[i] == 'q' || keys[i] == 'Q';
    *ret_any = got > 0;
    return got > 0;
}

static enum top_wish terminal_what_signals_want(void)
{
    if (ended)
        return TOP_QUIT;
    if (stopped) {
        terminal_stop();
        return TOP_REDRAW;
    }
    /* (!) After SIGSTOP a shell may have set modes of its own. They are not asked for: without a stop they are ours. */
    if (continued && modes_changed)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &our_modes);
    continued = resized = 0;
    return TOP_REDRAW;
}

enum top_wish top_terminal_wait(int64_t ms)
{
    const struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    struct pollfd polls[] = {{.fd = STDOUT_FILENO, .events = 0},
                             {.fd = modes_changed ? STDIN_FILENO : -1, .events = POLLIN}};
    bool quit = false, any = false;
    sigset_t none;

    sigemptyset(&none);
    if (ppoll(polls, 2, &span, &none) < 0)
        return errno == EINTR ? terminal_what_signals_want() : TOP_QUIT;
    if (polls[0].revents & (POLLERR | POLLHUP | POLLNVAL))
        return TOP_QUIT;
    if (polls[1].revents && (!terminal_read_keys(&quit, &any) || quit))
        return TOP_QUIT;
    return any ? TOP_REDRAW : TOP_DUE;
}

#include "agent/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shm/text.h"

#define LINE_MAX_BYTES 1024 /* below PIPE_BUF: a line is written whole or not at all */
#define FLUSH_MS       500  /* what a healthy file does not need, and a hung one does not get */

static atomic_int most_level = LOG_LEVEL_INFO;
/* Set by log_init() before there are threads. */
static int log_fd = STDERR_FILENO;
static bool to_journal, to_socket, may_block;
static atomic_uint dropped;

/* Where a write may block there is a thread for it, and the others only queue their lines. */
#define QUEUE_BYTES 65536
static struct {
    pthread_mutex_t lock; /* never held while anything is written */
    pthread_cond_t more;
    bool runs, writes;
    size_t used;
    char lines[QUEUE_BYTES]; /* each ends with a '\n' */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

/* systemd says in JOURNAL_STREAM what its end of stderr is: DEVICE:INODE. */
static bool log_is_journal(const struct stat *st)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, inode;

    /* NOLINTNEXTLINE(cert-err34-c): the service manager writes it; a wrong number is no match. */
    return stream && sscanf(stream, "%llu:%llu", &dev, &inode) == 2 && dev == st->st_dev &&
           inode == st->st_ino;
}

void log_set_level(enum log_level most)
{
    atomic_store_explicit(&most_level, (int)most, memory_order_relaxed);
}

void log_init(enum log_level most)
{
    struct stat st;
    int fd;

    log_set_level(most);
    if (log_fd != STDERR_FILENO)
        close(log_fd);
    log_fd = STDERR_FILENO;
    if (fstat(STDERR_FILENO, &st) < 0)
        return;
    to_socket = S_ISSOCK(st.st_mode);
    to_journal = log_is_journal(&st);
    may_block = !to_socket;
    /* (!) A description with our own O_NONBLOCK: on the shared one it would affect every other writer.
     * In a file, which may hang with its file system, a second offset would overwrite others' lines; another user's pipe cannot be
     * opened. Those may block. */
    if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
        return;
    fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return;
    log_fd = fd;
    may_block = false;
}

/* --- the thread that writes ------------------------------------------------------------------- */

static void log_write_whole(const char *line, size_t length)
{
    while (length > 0) {
        ssize_t done = write(log_fd, line, length);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        line += done;
        length -= (size_t)done;
    }
}

static void *log_write_queue(void *arg)
{
    static char lines[QUEUE_BYTES];

    for (;;) {
        size_t used, done = 0;

        pthread_mutex_lock(&queue.lock);
        queue.writes = false;
        while (queue.used == 0)
            pthread_cond_wait(&queue.more, &queue.lock);
        used = queue.used;
        memcpy(lines, queue.lines, used);
        queue.used = 0;
        queue.writes = true;
        pthread_mutex_unlock(&queue.lock);
        while (done < used) {
            size_t length = (size_t)((char *)memchr(lines + done, '\n', used - done) - lines) + 1;

            log_write_whole(lines + done, length - done);
            done = length;
        }
    }
    return arg;
}

static bool log_enqueue(const char *line, size_t length)
{
    bool room;

    pthread_mutex_lock(&queue.lock);
    room = length <= sizeof(queue.lines) - queue.used;
    if (room) {
        memcpy(queue.lines + queue.used, line, length);
        queue.used += length;
        pthread_cond_signal(&queue.more);
    }
    pthread_mutex_unlock(&queue.lock);
    return room;
}

void log_begin_thread(void)
{
    sigset_t all, before;
    pthread_t thread;

    if (!may_block || queue.runs)
        return;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    queue.runs = pthread_create(&thread, NULL, log_write_queue, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!queue.runs)
        return;
    (void)pthread_detach(thread);
    (void)atexit(log_flush);
}

void log_flush(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    bool busy = queue.runs;

    for (int i = 0; i < FLUSH_MS && busy; i++) {
        pthread_mutex_lock(&queue.lock);
        busy = queue.used > 0 || queue.writes;
        pthread_mutex_unlock(&queue.lock);
        if (busy)
            nanosleep(&pause, NULL);
    }
}

/* A pipe or terminal that takes a byte takes a line, unless others write to it, too. */
static bool log_has_room(void)
{
    struct pollfd fd = {.fd = log_fd, .events = POLLOUT};

    return !may_block || poll(&fd, 1, 0) == 1;
}

static bool log_write_line(const char *line, size_t length)
{
    ssize_t done;

    if (queue.runs)
        return log_enqueue(line, length);
    if (!log_has_room())
        return false;
    do
        done = to_socket ? send(log_fd, line, length, MSG_DONTWAIT | MSG_NOSIGNAL)
                         : write(log_fd, line, length);
    while (done < 0 && errno == EINTR);
    return done >= 0;
}

/* --- text for people -------------------------------------------------------------------------- */

/* In a name a backslash is the name's own; in a line it may begin what is escaped already. */
enum escaping { ESCAPE_NAME, ESCAPE_LINE };

/* One character as it is to be shown; returns how many bytes of the text it took. */
static size_t log_show(const uint8_t *p, size_t left, enum escaping how, char text[HF_ESCAPE_SIZE],
                       size_t *ret_length)
{
    uint32_t character;
    size_t length = hf_utf8_next(p, left, &character);

    if ((length > 1 && hf_utf8_plain(character)) || (how == ESCAPE_LINE && *p == '\\')) {
        memcpy(text, p, length);
        *ret_length = length;
        return length;
    }
    *ret_length = hf_escape_byte(p[0], text);
    return 1;
}

/* Cut with "..." to fit. Returns the length; a NUL is behind it. `size` is not 0. */
static size_t log_show_all(const void *text, size_t text_len, enum escaping how, char *out,
                           size_t size)
{
    static const char cut[] = "...";
    const uint8_t *p = text;
    size_t used = 0, whole = 0; /* `whole`: as far as there is room for the dots, too */

    while (text_len > 0) {
        char piece[HF_ESCAPE_SIZE];
        size_t length, taken = log_show(p, text_len, how, piece, &length);

        if (used + length >= size) {
            used = whole;
            if (used + sizeof(cut) <= size) {
                memcpy(out + used, cut, sizeof(cut) - 1);
                used += sizeof(cut) - 1;
            }
            break;
        }
        memcpy(out + used, piece, length);
        used += length;
        if (used + sizeof(cut) <= size)
            whole = used;
        p += taken;
        text_len -= taken;
    }
    out[used] = '\0';
    return used;
}

const char *log_name(const void *name, size_t name_len, char *buffer, size_t buffer_size)
{
    if (buffer_size > 0)
        (void)log_show_all(name, name_len, ESCAPE_NAME, buffer, buffer_size);
    return buffer;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* What stands before a line: the priority for the journal, which notes the time itself, else the time. Returns its length. */
static int log_head(char *out, size_t size, int priority)
{
    struct timespec now;
    struct tm tm;
    char second[32];

    if (to_journal)
        return snprintf(out, size, "<%d>", priority);
    clock_gettime(CLOCK_REALTIME, &now);
    if (!gmtime_r(&now.tv_sec, &tm) ||
        strftime(second, sizeof(second), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        return 0;
    return snprintf(out, size, "%s.%03dZ ", second, (int)(now.tv_nsec / 1000000));
}

/* `label`: "" or "error: ". */
static void log_put(int priority, const char *label, const char *format, va_list args)
    HF_PRINTF(3, 0);
static void log_put(int priority, const char *label, const char *format, va_list args)
{
    char line[LINE_MAX_BYTES];
    char text[LINE_MAX_BYTES]; /* what is cut here does not fit the line, either */
    int length, more;
    unsigned lost;

    length = log_head(line, sizeof(line), priority);
    length += snprintf(line + length, sizeof(line) - (size_t)length, "holdfastd: %s", label);
    more = vsnprintf(text, sizeof(text), format, args);
    if (more < 0)
        return;
    length += (int)log_show_all(text, strlen(text), ESCAPE_LINE, line + length,
                                sizeof(line) - (size_t)length);
    line[length++] = '\n'; /* over the NUL: it is written by length */

    lost = atomic_exchange_explicit(&dropped, 0, memory_order_relaxed);
    if (lost) {
        char note[128];
        int note_length = log_head(note, sizeof(note), 4);

        note_length += snprintf(note + note_length, sizeof(note) - (size_t)note_length,
                                "holdfastd: warning: %u lines of this log were dropped\n", lost);

        if (!log_write_line(note, (size_t)note_length)) {
            atomic_fetch_add_explicit(&dropped, lost + 1, memory_order_relaxed);
            return;
        }
    }
    if (!log_write_line(line, (size_t)length))
        atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
}

void log_write(enum log_level level, const char *format, ...)
{
    static const struct {
        int priority;
        const char *label;
    } levels[] = {
        [LOG_LEVEL_ERROR] = {3, "error: "},
        [LOG_LEVEL_WARN] = {4, "warning: "},
        [LOG_LEVEL_INFO] = {6, "info: "},
        [LOG_LEVEL_DEBUG] = {7, "debug: "},
    };
    int saved = errno;
    va_list args;

    if ((int)level > atomic_load_explicit(&most_level, memory_order_relaxed))
        return;
    va_start(args, format);
    log_put(levels[level].priority, levels[level].label, format, args);
    va_end(args);
    errno = saved;
}

void log_say(const char *format, ...)
{
    int saved = errno;
    va_list args;

    va_start(args, format);
    log_put(5, "", format, args);
    va_end(args);
    errno = saved;
}

#include "shm/assert.h"

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void (*told)(const char *text);
static atomic_flag failed = ATOMIC_FLAG_INIT;
static _Thread_local bool fails;

void hf_assert_hear(void (*hear)(const char *text))
{
    told = hear;
}

static void assert_write_line(const char *text)
{
    static const char head[] = "holdfast: assertion failed in ";

    if (write(STDERR_FILENO, head, sizeof(head) - 1) < 0 ||
        write(STDERR_FILENO, text, strlen(text)) < 0 || write(STDERR_FILENO, "\n", 1) < 0)
        return; /* nothing else can be done */
}

void hf_assert_failed(const char *function, int line, const char *expression, const char *format,
                      ...)
{
    char text[HF_ASSERT_TEXT + 1];
    size_t length;
    va_list args;

    if (fails) /* in its own report */
        abort();
    fails = true;
    while (atomic_flag_test_and_set(&failed))
        (void)poll(NULL, 0, 1000); /* the first one ends the program */
    (void)snprintf(text, HF_ASSERT_TEXT, "%s:%d: %s (", function, line, expression);
    length = strlen(text);
    va_start(args, format);
    (void)vsnprintf(text + length, HF_ASSERT_TEXT - length, format, args);
    va_end(args);
    length = strlen(text);
    memcpy(text + length, ")", 2);
    (told ? told : assert_write_line)(text);
    abort();
}

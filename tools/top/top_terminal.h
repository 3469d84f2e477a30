/* The terminal of the live view: its own screen, keys, its size, and all of it given back however the program ends.
 *
 * By plain control sequences (ECMA-48, as every terminal of the last decades has them) and not by ncurses: a frame is whole
 * lines that are written anew, without windows, input fields or scrolling. What the library would add is the database of
 * terminals that know no such sequences; what it would cost is two more libraries in a command that has none, and
 * signal handlers of its own beside the ones here. On a terminal that TERM calls "dumb" the view is plain.
 *
 * One thread; one terminal: standard input and output. */
#ifndef HOLDFAST_TOOLS_TOP_TOP_TERMINAL_H
#define HOLDFAST_TOOLS_TOP_TOP_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Standard output is a terminal that takes control sequences. */
bool top_terminal_is_there(void);
/* And may have colours: NO_COLOR is not set. */
bool top_terminal_has_colours(void);
/* The locale's characters are UTF-8. */
bool top_terminal_has_unicode(void);

/* Columns and lines; of what is no terminal $COLUMNS, else 80, and 0 lines for any number. */
void top_terminal_size(int *ret_width, int *ret_height);

/* Takes the screen over. (!) From now on every signal that ends the process gives it back first, and so does exit(). */
void top_terminal_open(void);
void top_terminal_close(void);
/* Only heeds signals and the end of the reader, for frames that are plain. */
void top_terminal_watch(void);

/* Shows a frame of lines, in place of the last one. False: nobody can see it any more. */
bool top_terminal_show(const char *text, size_t length);

enum top_wish { TOP_DUE, TOP_REDRAW, TOP_QUIT };
/* Waits for so long, or until something is wished for: by a key, a signal, another size. Also without top_terminal_open(),
 * but for keys. */
enum top_wish top_terminal_wait(int64_t ms);

#endif

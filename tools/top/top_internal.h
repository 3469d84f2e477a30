/* Lines of text of a bounded width, with tones where the terminal has colours. Pure but for memory. */
#ifndef HOLDFAST_TOOLS_TOP_TOP_INTERNAL_H
#define HOLDFAST_TOOLS_TOP_TOP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"
#include "tools/reader/life.h"
#include "tools/reader/reader.h"
#include "tools/reader/reader_args.h"

/* What a frame of the live view is drawn from: plain values, taken from the table once. One thread. */

#define TOP_LEASES_MOST 1000 /* the most urgent; more are counted */
#define TOP_LOSSES_MOST 20   /* the newest */
#define TOP_WORD        48
#define TOP_NOTE        200

/* Names are bytes; all other texts are escaped already. */
struct top_lease {
    uint8_t name[HF_NAME_MAX];
    size_t name_len;
    enum hf_slot_state state; /* HELD, LATE or LOSING */
    uint32_t votes, pid;
    int64_t left_ms, ttl_ms, held_ms;
    char user[TOP_WORD], note[TOP_NOTE];
};

struct top_node {
    char id[TOP_WORD], state[TOP_WORD], why[TOP_NOTE];
    bool votes;
    int64_t rtt_ns, answered_ms; /* -1: never */
};

struct top_waiter {
    uint8_t name[HF_NAME_MAX];
    size_t name_len;
    uint32_t place, pid;
    int64_t waits_ms, gives_up_ms; /* -1: never */
    char user[TOP_WORD], command[TOP_WORD];
};

struct top_loss {
    uint8_t name[HF_EVENT_TEXT];
    size_t name_len;
    const char *state; /* "lost"; "losing": it is in force; "released" before its V */
    int64_t wall_ms;
    char why[TOP_NOTE];
};

/* Zeroed it is empty; freed with top_model_free(). */
struct top_model {
    char agent[TOP_WORD], host[TOP_NOTE], version[TOP_WORD], sentence[TOP_NOTE + 64];
    enum life_verdict verdict; /* not alive: nodes, waiters and clients are those of `when` */
    char when[TOP_WORD];
    int pid;
    int64_t up_ms, wall_ms, beat_ms[LIFE_THREADS];
    bool drained;
    struct hf_table_terms terms;
    uint32_t voting, node_count;
    struct reader_counts counts;
    uint64_t waiting, clients, grants, releases, losses;
    int64_t at_ns;                    /* of this sample */
    int64_t grants_10s, releases_10s; /* in ten seconds, since the sample before; -1: not known */
    int64_t margin_ppm, lag_us;       /* of the last minutes; -1: not known */
    bool filtered;                    /* only names of a prefix are in `lease` and `waiter` */
    bool waiters_known;
    struct top_node node[HF_NODES_MAX];
    struct top_lease *lease;
    size_t lease_count;
    uint64_t lease_total; /* that would be in `lease` if it had room */
    struct top_waiter *waiter;
    size_t waiter_count;
    struct top_loss loss[TOP_LOSSES_MOST];
    size_t loss_count;
};

/* Replaces `model`; what it was before gives the rates. Ends the program if memory runs out. */
void top_model_take(struct top_model *model, const struct reader *reader,
                    const struct reader_name *prefix);
void top_model_free(struct top_model *model);

struct top_style {
    int width, height; /* columns, at least 1; lines, 0: any number */
    bool colour;
    bool unicode; /* bars of block characters; else of '#' */
};

enum top_tone { TONE_PLAIN, TONE_BOLD, TONE_DIM, TONE_GOOD, TONE_WARN, TONE_BAD };

/* Zeroed it is empty; freed with top_canvas_free(). */
struct top_canvas {
    const struct top_style *style;
    char *text; /* lines that end with '\n'; no final NUL */
    size_t length, room;
    int column, lines;
};

/* Empties it. */
void top_canvas_begin(struct top_canvas *canvas, const struct top_style *style);
void top_canvas_free(struct top_canvas *canvas);

/* `part` of `width` columns is filled; 0 to 1. */
void top_canvas_bar(struct top_canvas *canvas, enum top_tone tone, double part, int width);

/* Draws a frame of the live view from a model. Pure but for the canvas's memory. */

/* No line is wider than `style->width`, and there are no more than `style->height` of them. Whatever the names are, nothing
 * but printable ASCII, block characters of bars and, with colours, their sequences comes out. */
void top_frame_draw(struct top_canvas *canvas, const struct top_style *style,
                    const struct top_model *model);

/* The terminal of the live view: its own screen, keys, its size, and all of it given back however the program ends.
 *
 * By plain control sequences (ECMA-48, as every terminal of the last decades has them) and not by ncurses: a frame is whole
 * lines that are written anew, without windows, input fields or scrolling. What the library would add is the database of
 * terminals that know no such sequences; what it would cost is two more libraries in a command that has none, and
 * signal handlers of its own beside the ones here. On a terminal that TERM calls "dumb" the view is plain.
 *
 * One thread; one terminal: standard input and output. */

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

/* Memory as the C11 model allows it, for models of two processes that share words.
 *
 * A store waits in its process's buffer until `memory` lets it out; the process itself sees it at
 * once (LOAD). A plain (relaxed) store may overtake others on its way, never one to the same word; a
 * release is let out after everything before it. This is weaker than x86, where a store can only be
 * late, and as weak as what ARM and the compiler may do with stores. Loads that are not ordered are
 * written down in the other order where the model looks at that.
 *
 * Before this file: N_WORDS, the number of shared words. Processes are numbered 0 and 1.
 */
#define BUFFER 4 /* a process that has so many stores waiting waits, too */

typedef buffer {
    byte n;
    byte word[BUFFER];
    byte value[BUFFER];
    bit release[BUFFER]
};

byte shared[N_WORDS];
hidden byte i_; /* for loops inside atomic or d_step only */
buffer waiting[2];

#define RELAXED 0
#define RELEASE 1

inline STORE(me, w, v, order)
{
    atomic {
        waiting[me].n < BUFFER;
        waiting[me].word[waiting[me].n] = w;
        waiting[me].value[waiting[me].n] = v;
        waiting[me].release[waiting[me].n] = order;
        waiting[me].n++
    }
}

/* Everything that was stored is out: what a sequentially consistent store, a full fence or an atomic
 * read-modify-write does before the next load. */
inline FLUSH(me)
{
    waiting[me].n == 0
}

inline LOAD(me, w, to)
{
    d_step {
        to = shared[w];
        i_ = 0;
        do
        :: i_ < waiting[me].n ->
           if
           :: waiting[me].word[i_] == w -> to = waiting[me].value[i_]
           :: else
           fi;
           i_++
        :: else -> break
        od;
        i_ = 0
    }
}

/* A store may go if it is the first, or relaxed with none to its word before it. */
#define MAY_GO(p, k)                                                                               \
    (waiting[p].n > k && (k == 0 || (!waiting[p].release[k] && FIRST_OF_WORD(p, k))))
#define FIRST_OF_WORD(p, k)                                                                        \
    ((k < 1 || waiting[p].word[0] != waiting[p].word[k]) &&                                        \
     (k < 2 || waiting[p].word[1] != waiting[p].word[k]) &&                                        \
     (k < 3 || waiting[p].word[2] != waiting[p].word[k]))

inline let_out(p, k)
{
    d_step {
        shared[waiting[p].word[k]] = waiting[p].value[k];
        i_ = k;
        do
        :: i_ + 1 < waiting[p].n ->
           waiting[p].word[i_] = waiting[p].word[i_ + 1];
           waiting[p].value[i_] = waiting[p].value[i_ + 1];
           waiting[p].release[i_] = waiting[p].release[i_ + 1];
           i_++
        :: else -> break
        od;
        waiting[p].word[i_] = 0;
        waiting[p].value[i_] = 0;
        waiting[p].release[i_] = 0;
        waiting[p].n--;
        i_ = 0
    }
}

proctype memory()
{
end:
    do
    :: MAY_GO(0, 0) -> let_out(0, 0)
    :: MAY_GO(0, 1) -> let_out(0, 1)
    :: MAY_GO(0, 2) -> let_out(0, 2)
    :: MAY_GO(0, 3) -> let_out(0, 3)
    :: MAY_GO(1, 0) -> let_out(1, 0)
    :: MAY_GO(1, 1) -> let_out(1, 1)
    :: MAY_GO(1, 2) -> let_out(1, 2)
    :: MAY_GO(1, 3) -> let_out(1, 3)
    od
}

/* The name index while it is rebuilt: whoever looks for a name that stands finds it, or knows that it
 * cannot know; whoever looks for one that does not stand is never given another's slot.
 *
 * `shm/index.c` compacts the area in use into the other one and flips them, twice, so that a
 * reader may be stopped for a whole flip and more. An area is two places here: the first one probed
 * has held something else (a tombstone) in the area that is compacted, so the name moves. It may be
 * killed at any step; another agent rebuilds the index then.
 *
 * Rules; a model without one of them must fail:
 */
#define DROP_FILLED_FIRST  1 /* `shm/index.c:index_write_compact`: an area is filled before the areas are flipped */
#define DROP_FLIP_RELEASE  2 /* `shm/index.c:index_write_flip`: what fills it is out before it is shown */
#define DROP_FLIP_ODD      3 /* `shm/index.c:index_write_flip`: the count moves, so that a reader knows */
#define DROP_OTHER_AREA    4 /* `shm/index.c:index_write_begin_rebuild`: the area in use is left alone */
#define DROP_SAME          5 /* `shm/index.c:hf_index_find`: a miss counts only if the count is the same */
#define DROP_EVEN          6 /* `shm/index.c:hf_index_find`: a miss under an odd count does not count */
#define DROP_AREA_ACQUIRE  7 /* `shm/index.c:hf_index_find`: the area is read before its entries */
#define DROP_COMPARE       8 /* `shm/index.c:index_find_in`: a hit counts only if the slot has that name */

c_decl {
    \#include <stdlib.h>
}

#define SEQ      0
#define AREA     1
#define PLACE    2 /* area 0: two places, area 1: two places */
#define SLOT     6 /* the name that a slot has: two slots */
#define N_WORDS  8

#include "weak.pml"

#define AGENT    0
#define READER   1

/* entries: 0 none; else slot + 1, TOMB */
#define TOMB     9
/* names */
#define WANTED   1
#define OTHER    2

byte drop; /* the rule that this run is without; 0 none */
bit killed;

inline set(w, v)
{
    if
    :: drop == DROP_FLIP_RELEASE -> STORE(AGENT, w, v, RELAXED)
    :: else -> STORE(AGENT, w, v, RELEASE)
    fi
}

inline fill(area)
{
    set(PLACE + 2 * area, 0);
    set(PLACE + 2 * area + 1, 0);
    set(PLACE + 2 * area, 1) /* slot 0 */
}

inline flip(area)
{
    if
    :: drop == DROP_FLIP_ODD -> skip
    :: else ->
       seq = seq | 1;
       set(SEQ, seq)
    fi;
    set(AREA, area);
    if
    :: drop == DROP_FLIP_ODD -> skip
    :: else ->
       seq++;
       set(SEQ, seq)
    fi
}

inline rebuild()
{
    LOAD(AGENT, AREA, area);
    if
    :: drop != DROP_OTHER_AREA -> area = 1 - area
    :: else
    fi;
    if
    :: drop == DROP_FILLED_FIRST ->
       flip(area);
       fill(area)
    :: else ->
       fill(area);
       flip(area)
    fi
}

proctype agent()
{
    byte seq, area;

    {
        rebuild();
        rebuild()
    } unless {
        killed -> FLUSH(AGENT)
    };
    FLUSH(AGENT);
    LOAD(AGENT, SEQ, seq);
    rebuild();
    /* The slot's other name: "wanted" leaves slot 0 for slot 1, as an index may lag behind. */
    STORE(AGENT, SLOT + 1, WANTED, RELEASE);
    LOAD(AGENT, AREA, area);
    STORE(AGENT, PLACE + 2 * area + 1, 2, RELEASE);
    STORE(AGENT, SLOT, OTHER, RELEASE)
}

proctype killer()
{
    killed = 1
}

proctype reader()
{
    byte begin, again, area, entry, name, found, place;

    if
    :: drop == DROP_AREA_ACQUIRE -> /* entries of the area that was in use at first */
       LOAD(READER, PLACE, entry)
    :: else
    fi;
    LOAD(READER, SEQ, begin);
    LOAD(READER, AREA, area);
    if
    :: drop == DROP_AREA_ACQUIRE -> skip
    :: else -> LOAD(READER, PLACE + 2 * area, entry)
    fi;
    do
    :: entry == 0 -> break
    :: entry == TOMB || found != 0 || place == 2 -> goto next
    :: else ->
       LOAD(READER, SLOT + entry - 1, name);
       if
       :: name == WANTED || drop == DROP_COMPARE -> found = entry
       :: else
       fi;
next:
       place++;
       if
       :: place >= 2 || found != 0 -> break
       :: else -> LOAD(READER, PLACE + 2 * area + place, entry)
       fi
    od;
    LOAD(READER, SEQ, again);
    if
    :: found != 0 -> assert(name == WANTED)
    :: found == 0 && (!(begin & 1) || drop == DROP_EVEN) && (begin == again || drop == DROP_SAME) ->
       assert(found)
    :: else
    fi
}

init
{
    c_code { now.drop = getenv("DROP") ? atoi(getenv("DROP")) : 0; };
    atomic {
        shared[PLACE] = TOMB;
        shared[PLACE + 1] = 1;
        shared[SLOT] = WANTED;
        shared[SLOT + 1] = OTHER;
        run agent();
        run killer();
        run reader();
        run memory()
    }
}

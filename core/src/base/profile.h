/* Marks where the calling thread is, for the time line of `make bench`: built with -DHL_PROFILE the marks call
 * profile_enter, which the bench links in; in every other build they are nothing. */
#ifndef HL_BASE_PROFILE_H
#define HL_BASE_PROFILE_H

enum profile_phase {
    PROFILE_EMBED,     /* embedding rows, angles of the rotation */
    PROFILE_NORM,      /* residual, norm, activations to codes */
    PROFILE_LINEAR,    /* products with weights */
    PROFILE_ATTENTION, /* rotation, rows into the cache, scores, values */
    PROFILE_OUTPUT,    /* the product that gives the logits */
    PROFILE_SAMPLING,
    PROFILE_WAIT,   /* for other threads at the end of a parallel phase */
    PROFILE_RESUME, /* back to what was before PROFILE_WAIT */
};

enum { PROFILE_PHASES = PROFILE_RESUME };

#ifdef HL_PROFILE
/* The time since the last mark belongs to the phase entered there. */
void profile_enter(enum profile_phase phase);
#define PROFILE(phase) profile_enter(PROFILE_##phase)
#else
#define PROFILE(phase) ((void)0)
#endif

#endif

#ifndef FORETRACE_STEP_H
#define FORETRACE_STEP_H
/* What one step of an inference engine takes, for schedulers and simulators of others: plain C, in
   libforetrace. Calls on one predictor may be made from several threads at once. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FORETRACE_STEP_API __attribute__((visibility("default")))

typedef struct foretrace_step_predictor foretrace_step_predictor;

/* A step: prompts' chunks, each of so many new tokens over so many that are in the cache, and
   sequences that decode one token each over `decode_cached` tokens of all of them together. Of one
   data-parallel rank, beside which the others are taken to be alike. */
typedef struct {
  const int32_t* chunk_tokens;
  const int32_t* chunk_cached;
  size_t chunks;
  int32_t decodes;
  int64_t decode_cached;
} foretrace_step_batch;

/* Shares of the time by where it comes from. */
typedef struct {
  double us;
  double calibrated, analytic, extrapolated;
} foretrace_step_time;

/* `model`, `platform` and `parallel` as `foretrace serve` takes them; `profile` is a folder of
   layer profiles, or null for the graph and the platform's calibrated kernels. Null where that
   fails: `error` then holds one line, cut to `error_size`. */
FORETRACE_STEP_API foretrace_step_predictor* foretrace_step_open(const char* model,
                                                                 const char* platform,
                                                                 const char* parallel,
                                                                 const char* profile, char* error,
                                                                 size_t error_size);
/* 0, or 2 for a batch that is empty or has negative numbers. */
FORETRACE_STEP_API int foretrace_step_predict(const foretrace_step_predictor* predictor,
                                              const foretrace_step_batch* batch,
                                              foretrace_step_time* time);
FORETRACE_STEP_API void foretrace_step_close(foretrace_step_predictor* predictor);

#ifdef __cplusplus
}
#endif

#endif

// Writes when each kernel and each copy of a CUDA program ran, with CUPTI: a library that the driver loads into any
// program. bench/gpu/timeline.py builds it and draws what it writes.
//   cc -shared -fPIC -I CUPTI/include kernel_trace.c -o kernel_trace.so -L CUPTI/lib -lcupti
//   CUDA_INJECTION64_PATH=./kernel_trace.so KERNEL_TRACE=FILE PROGRAM ...
// Lines: begin and end in nanoseconds of CLOCK_MONOTONIC, bytes of a copy or 0, the kernel's name or "copy to host", ...
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kBufferBytes = 8 << 20 };
static FILE* out;

static uint64_t clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = aligned_alloc(8, kBufferBytes);
  *size = *buffer ? kBufferBytes : 0;
  *most_records = 0;
}

static void write_span(uint64_t begin, uint64_t end, uint64_t bytes, const char* name) {
  fprintf(out, "%llu %llu %llu %s\n", (unsigned long long)begin, (unsigned long long)end, (unsigned long long)bytes,
          name);
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  CUpti_Activity* record = NULL;
  while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const CUpti_ActivityKernel10* k = (const CUpti_ActivityKernel10*)record;
      write_span(k->start, k->end, 0, k->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const CUpti_ActivityMemcpy6* c = (const CUpti_ActivityMemcpy6*)record;
      write_span(c->start, c->end, c->bytes,
                 c->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH   ? "copy to host"
                 : c->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? "copy to device"
                                                                  : "copy");
    }
  }
  free(buffer);
}

static void finish(void) {
  cuptiActivityFlushAll(1);
  fclose(out);
}

int InitializeInjection(void) {
  const char* file = getenv("KERNEL_TRACE");
  if (!file || !(out = fopen(file, "w"))) return 0;
  const CUptiResult results[] = {cuptiActivityRegisterTimestampCallback(clock_now),
                                 cuptiActivityRegisterCallbacks(give_buffer, take_buffer),
                                 cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
                                 cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY)};
  for (size_t i = 0; i < sizeof results / sizeof *results; i++)
    if (results[i] != CUPTI_SUCCESS) fprintf(stderr, "kernel_trace: CUPTI says %d (call %zu)\n", results[i], i);
  atexit(finish);
  return 1;
}

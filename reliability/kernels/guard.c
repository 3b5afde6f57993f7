/* Memory that ends where its tensor ends.

   Loaded with LD_PRELOAD into the processes of the sweep (python -m reliability.kernels). PyTorch takes the memory of
   CPU tensors from posix_memalign with an alignment of 64. Each such block gets pages of its own: its last byte is the
   last byte of a page, and no page follows. A kernel that reads or writes past the end of a tensor dies on the spot,
   and so does one that uses a tensor after it was freed. What lies before a block, and up to three bytes after it, is
   filled with a pattern that is checked when the block is freed.

   cc -O1 -shared -fPIC -o guard.so guard.c -ldl -lpthread */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL
#define REGION (1UL << 38)
#define PATTERN 0xA5

typedef struct { size_t size, pages; unsigned char *data; } Header;

static unsigned char *region, *next_block;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int (*real_posix_memalign)(void **, size_t, size_t);
static void (*real_free)(void *);
static void *(*real_realloc)(void *, size_t);
static int is_on;

static void complain(const char *text) {
  if (write(2, text, strlen(text)) < 0) { }
  abort();
}

static int is_ours(const void *at) {
  return region && (const unsigned char *)at >= region && (const unsigned char *)at < region + REGION;
}

/* Called by the sweep once PyTorch is loaded: what was allocated before stays as it is. */
void guard_on(void) {
  if (!region) {
    region = mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) complain("guard: no address space\n");
    next_block = region;
  }
  is_on = 1;
}

int posix_memalign(void **result, size_t alignment, size_t size) {
  if (!real_posix_memalign) real_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
  if (!is_on || alignment != 64 || size == 0) return real_posix_memalign(result, alignment, size);
  size_t pages = (size + PAGE - 1) / PAGE, length = (pages + 2) * PAGE;
  pthread_mutex_lock(&lock);
  unsigned char *block = next_block;
  int fits = size < REGION && next_block + length <= region + REGION;
  if (fits) next_block += length;
  pthread_mutex_unlock(&lock);
  if (!fits || mprotect(block, length - PAGE, PROT_READ | PROT_WRITE)) return ENOMEM;
  memset(block, PATTERN, length - PAGE);
  Header *header = (Header *)block;
  header->size = size;
  header->pages = pages;
  header->data = block + (pages + 1) * PAGE - (size + 3) / 4 * 4;
  *result = header->data;
  return 0;
}

void free(void *at) {
  if (!is_ours(at)) {
    if (!real_free) real_free = dlsym(RTLD_NEXT, "free");
    real_free(at);
    return;
  }
  unsigned char *data = at, *page = (unsigned char *)((uintptr_t)data & ~(PAGE - 1));
  Header *header = (Header *)(page - PAGE);
  if (header->data != data) complain("guard: the memory in front of a tensor was written\n");
  for (unsigned char *each = (unsigned char *)(header + 1); each < data; each++)
    if (*each != PATTERN) complain("guard: the memory in front of a tensor was written\n");
  unsigned char *end = (unsigned char *)header + (header->pages + 1) * PAGE;
  for (unsigned char *each = data + header->size; each < end; each++)
    if (*each != PATTERN) complain("guard: the memory behind a tensor was written\n");
  size_t length = (header->pages + 1) * PAGE;
  madvise(header, length, MADV_DONTNEED);
  mprotect(header, length, PROT_NONE);
}

void *realloc(void *at, size_t size) {
  if (!real_realloc) real_realloc = dlsym(RTLD_NEXT, "realloc");
  if (is_ours(at)) complain("guard: a tensor's memory was given to realloc\n");
  return real_realloc(at, size);
}

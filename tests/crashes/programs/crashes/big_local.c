/* A local variable of 64 MiB, in a thread with a stack of 8 MiB.

Truth: {"says": ["SIGSEGV", "local variables of blur.{0,20} need [0-9,]+ KiB more than the 8,192 KiB", "in blur"]}
*/
#include <pthread.h>
#include <string.h>
static int blur(int seed) { char image[64 << 20]; memset(image, seed, sizeof image); return image[seed]; }
static void *worker(void *arg) { (void)arg; return (void *)(long)blur(3); }
int main(void) { pthread_t t; pthread_create(&t, 0, worker, 0); pthread_join(t, 0); return 0; }

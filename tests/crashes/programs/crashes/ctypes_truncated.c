#include <stdlib.h>
struct device { int state; char name[60]; };
struct device *device_open(const char *n) { struct device *d = malloc(sizeof *d + (1 << 20)); d->state = n[0]; return d; }
int device_status(struct device *d) { return d->state; }

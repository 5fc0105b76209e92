/* A library that calls its argument, for boundaries.py. */

__attribute__((visibility("default"), noipa)) int apply(int (*callback)(int), int value)
{
    int result = callback(value);
    return result + 1;
}

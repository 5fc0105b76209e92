/* A virtual function of an object that was deleted is called.

Truth: {"says": ["SIGSEGV", "poll_source", "freed"], "never": "a C\\+\\+ object of class", "flags": ["-O1"]}
*/
struct Source { virtual ~Source() {} virtual int poll() { return number; } int number = 1; long pad[6]; };
__attribute__((noinline)) int poll_source(Source *source) { return source->poll() + 1; }
int main() {
    Source *volatile source = new Source;
    delete source;
    return poll_source(source);
}

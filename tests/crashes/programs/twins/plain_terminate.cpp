/* A program calls std::terminate itself.

Truth: {"says": ["SIGABRT", "std::terminate", "give_up"], "never": "joinable|noexcept|exception of type", "flags": ["-O1"]}
*/
#include <exception>
__attribute__((noinline)) void give_up(int why) {
    if (why)
        std::terminate();
}
int main(int argc, char **) { give_up(argc); return 2; }

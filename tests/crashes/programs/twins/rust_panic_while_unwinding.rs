/* A destructor panics while a first panic unwinds: that one is the cause.

Truth: {"says": ["SIGABRT", "first: the index is damaged"], "never": "a Rust panic at \\S*library/core", "flags": ["-C", "opt-level=1"]}
*/
struct Guard(u32);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic!("second: the lock is poisoned");
        }
    }
}

#[inline(never)]
fn rebuild(number: u32) -> u32 {
    let guard = Guard(number);
    if number > 0 {
        panic!("first: the index is damaged");
    }
    guard.0
}

fn main() {
    println!("{}", rebuild(std::env::args().count() as u32));
}

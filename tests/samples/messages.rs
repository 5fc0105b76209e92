//! Panics where nothing can unwind; the argument says how. It waits for a line before that.

use std::env;
use std::io::Read;

#[inline(never)]
fn end(story: &str, handles: &[u32]) -> u32 {
    match story {
        "text" => panic!("a handle is not ready"),
        "formatted" => panic!("handle {} of {story} is not ready", handles.len()),
        "unwrap" => handles.iter().copied().find(|handle| *handle > 10).unwrap(),
        "expect" => env::var("NO_SUCH_VARIABLE").expect("the variable").len() as u32,
        "index" => handles[story.len()],
        "number" => std::panic::panic_any(42u32),
        _ => std::process::abort(),
    }
}

/// A panic cannot cross into the caller: it ends the process here if it has not done so before.
extern "C" fn fence() -> u32 {
    end(&env::args().nth(1).unwrap_or_default(), &[1, 2, 3])
}

fn main() {
    println!("{{\"sample\": \"messages\", \"variant\": \"rust\", \"pid\": {}, \"threads\": {{}}, \"locks\": {{}}, \
              \"deadlock\": [], \"stuck_behind\": []}}", std::process::id());
    let _ = std::io::stdin().read(&mut [0]);
    println!("{}", fence());
}

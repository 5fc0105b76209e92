//! Threads of rayon and tokio that are idle, wait for a pool, or block inside one. The names of the threads are roles.
//!
//! Prints one JSON line about itself, see tests/support/samples.py, and then hangs.

use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

// the number of the system call of x86-64
const FUTEX: &str = "202 ";

fn rayon_pool(name: &'static str, threads: usize) -> &'static rayon::ThreadPool {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(move |i| format!("{name}.{i}"));
    Box::leak(Box::new(builder.build().expect("a pool")))
}

fn tokio_runtime(name: &'static str) -> &'static tokio::runtime::Runtime {
    let count = AtomicUsize::new(0);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_keep_alive(Duration::from_secs(1 << 20));
    builder.thread_name_fn(move || format!("{name}.{}", count.fetch_add(1, Ordering::Relaxed)));
    Box::leak(Box::new(builder.build().expect("a runtime")))
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(format!("{name}.0")).spawn(run).expect("a thread");
}

/// Wait for a message that nobody sends.
fn wait_forever() {
    let (sender, receiver) = mpsc::channel::<()>();
    std::mem::forget(sender);
    let _ = receiver.recv();
}

fn play_rayon() {
    rayon_pool("r-idle", 1);
    let busy = rayon_pool("r-in-job", 1);
    busy.spawn(wait_forever);
    start("r-caller", move || busy.install(|| ()));
    // one of the two sleeps on the mutex, the other one waits for that job
    static MUTEX: Mutex<()> = Mutex::new(());
    std::mem::forget(MUTEX.lock());
    let joined = rayon_pool("r-join", 2);
    let (sender, receiver) = mpsc::channel::<()>();
    start("r-joiner", move || {
        joined.install(|| {
            rayon::join(
                move || {
                    let _ = receiver.recv();
                },
                move || {
                    let _ = sender.send(());
                    let _guard = MUTEX.lock();
                },
            );
        })
    });
}

fn play_tokio() {
    let idle = tokio_runtime("t-idle");
    idle.spawn_blocking(|| ());
    tokio_runtime("t-in-task").spawn(async { wait_forever() });
    tokio_runtime("t-in-call").spawn_blocking(wait_forever);
    start("t-block-on", move || {
        idle.block_on(async {
            let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
            std::mem::forget(sender);
            let _ = receiver.await;
        })
    });
}

/// (number, name, whether it sleeps on a futex) of each thread but the first.
fn threads() -> Vec<(u32, String, bool)> {
    let own = std::process::id();
    let tasks = fs::read_dir("/proc/self/task").expect("it is there");
    let mut found = Vec::new();
    for tid in tasks.map(|task| task.expect("a task").file_name().to_string_lossy().parse::<u32>().expect("a TID")) {
        let read = |file: &str| fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).unwrap_or_default();
        if tid != own {
            found.push((tid, read("comm").trim().to_string(), read("syscall").starts_with(FUTEX)));
        }
    }
    found
}

fn main() {
    play_rayon();
    play_tokio();
    // until nothing has changed for a while
    let (mut last, mut times) = (threads(), 0);
    while times < 50 || !last.iter().all(|thread| thread.2) {
        thread::sleep(Duration::from_millis(5));
        let now = threads();
        times = if now == last { times + 1 } else { 0 };
        last = now;
    }
    last.push((std::process::id(), "main".to_string(), false));
    let described: Vec<_> = last
        .iter()
        .map(|(tid, name, _)| {
            format!("{name:?}: {{\"tid\": {tid}, \"syscall\": null, \"python_name\": null, \"blocked\": true, \"stack\": []}}")
        })
        .collect();
    println!(
        "{{\"sample\": \"rust-pools\", \"variant\": \"all\", \"pid\": {}, \"threads\": {{{}}}, \"locks\": {{}}, \
         \"deadlock\": [], \"stuck_behind\": []}}",
        std::process::id(),
        described.join(", ")
    );
    let _unused = std::io::stdin().read(&mut [0]);
}

/* The warning in Qt's documentation of Qt::BlockingQueuedConnection and QThread::wait, heeded: a thread that calls another one
   and waits for it holds no lock that the other one wants, and is not waited for by it.

   Two threads with event loops are called by four others, which hold one mutex while they call and take another one in the
   call. Recursive mutexes are locked in one order. Threads are started, called for the last time, and joined.

Truth: {"expect": "healthy", "library": "qt6", "flags": ["-fPIC", "-w"]} */
#include <QtCore/QCoreApplication>
#include <QtCore/QEventLoop>
#include <QtCore/QMutex>
#include <QtCore/QSemaphore>
#include <QtCore/QThread>
#include <mutex>
#include "../scene.hpp"

static QMutex calls[2], results[2];
static QRecursiveMutex outer, inner;
static QSemaphore tickets(2);
static QObject *windows[2];
static std::atomic<int> opened;

struct Window : QThread {
    int number = 0;

    void run() override {
        scene::enrol(number ? "window-1" : "window-0");
        QObject object;
        windows[number] = &object;
        opened++;
        exec();
    }
};

static void call(int number) {
    std::lock_guard<QMutex> guard(calls[number]);
    QMetaObject::invokeMethod(windows[number], [number] {
        std::lock_guard<QMutex> result(results[number]);
        usleep(200);
    }, Qt::BlockingQueuedConnection);
}

static void work() {
    for (int turn = 0; !scene::stopping; turn++) {
        call(turn & 1);
        tickets.acquire();
        {
            std::lock_guard<QRecursiveMutex> one(outer), again(outer), two(inner);
            usleep(100);
        }
        tickets.release();
        std::lock_guard<QMutex> result(results[turn & 1]);
        usleep(100);
    }
}

struct Short : QThread {
    void run() override {
        std::lock_guard<QRecursiveMutex> one(outer), two(inner);
        usleep(300);
    }
};

static void join() {
    while (!scene::stopping) {
        Short thread;
        thread.start();
        thread.wait();
    }
}

int main(int argc, char **argv) {
    QCoreApplication application(argc, argv);
    scene::enrol("main");
    scene::listen();
    Window threads[2];
    for (int i = 0; i < 2; i++) {
        threads[i].number = i;
        threads[i].start();
        while (opened <= i)
            sched_yield();
    }
    std::thread workers[5];
    for (int i = 0; i < 4; i++)
        workers[i] = scene::thread("worker-" + std::to_string(i), work);
    workers[4] = scene::thread("joiner", join);
    scene::ready();
    for (std::thread &worker : workers)
        worker.join();
    for (Window &window : threads) {
        window.quit();
        window.wait();
    }
}

/* Qt's documentation of QThread::wait and Qt::BlockingQueuedConnection: a window that is closed joins its worker, which
   has called a method of the window and waits for the result.

   A third thread wants the mutex that the worker holds meanwhile.

Truth: {"expect": "deadlock", "library": "qt6", "flags": ["-fPIC", "-w"], "behind": ["reader"],
        "edges": [["main", "thread-exit", "worker"], ["worker", "qt-call", "main"]],
        "waits": [["reader", "qt-recursive-mutex", "worker"]]} */
#include <QtCore/QCoreApplication>
#include <QtCore/QMutex>
#include <QtCore/QThread>
#include "../scene.hpp"

static QRecursiveMutex document;
static QObject *window;
static std::atomic<bool> is_saving;

struct Worker : QThread {
    void run() override {
        scene::enrol("worker");
        document.lock();
        is_saving = true;
        QMetaObject::invokeMethod(window, [] { }, Qt::BlockingQueuedConnection);
        document.unlock();
    }
};

static void read_document() {
    document.lock();
    document.unlock();
}

int main(int argc, char **argv) {
    QCoreApplication application(argc, argv);
    QObject object;
    window = &object;
    scene::enrol("main");
    Worker worker;
    worker.start();
    while (!is_saving)
        sched_yield();
    std::thread reader = scene::thread("reader", read_document);
    scene::ready();
    worker.wait();
}

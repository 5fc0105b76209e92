// A stand-in for libtorch_cpu.so: a flight recorder and a c10d::Work with the layout of PyTorch 2.13, under its names.
// Python programs record operations in it, and wait for them.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace c10 {
struct Event {};

template <typename T, unsigned N>
struct SmallVector {
    T *data = inside;
    std::uint32_t size = 0, capacity = N;
    T inside[N] = {};

    void push(T value) { inside[size++] = value; }
};
}  // namespace c10

namespace c10d {
template <typename EventType>
struct FlightRecorder {
    struct Entry {
        std::size_t id_, reset_epoch_, pg_id_;
        std::tuple<std::string, std::string> pg_name_;
        std::size_t collective_seq_id_, p2p_seq_id_, op_id_;
        std::string profiling_name_;
        std::shared_ptr<int> traceback_;
        EventType *start_, *end_;
        std::int64_t time_created_, timeout_ms_;
        bool isP2P_;
        std::optional<float> duration_;
        std::optional<std::int64_t> time_discovered_started_, time_discovered_completed_;
        c10::SmallVector<std::int64_t, 4> input_dims_;
        std::vector<std::int8_t> input_dtypes_;
        c10::SmallVector<std::int64_t, 4> output_dims_;
        std::vector<std::int8_t> output_dtypes_;
        c10::SmallVector<std::int64_t, 8> sizes_;
        std::thread::id thread_id_;
        std::string thread_name_;
        bool retired_;
    };

    static FlightRecorder *get() {
        static FlightRecorder *instance = new FlightRecorder();
        return instance;
    }

    bool enabled_ = true, capture_cpp_stack_ = false;
    std::mutex mutex_;
    std::vector<Entry> entries_;
    std::size_t max_entries_ = 8, next_ = 0, id_ = 0, reset_epoch_ = 0;
    std::unordered_map<std::size_t, std::size_t> reset_epoch_start_idx_;
    std::map<std::size_t, std::shared_ptr<int>> all_pg_status_;
    std::map<std::tuple<std::string, std::string>, std::vector<std::uint64_t>> pg_name_to_ranks_;
    std::string comm_lib_version_;
};

using Recorder = FlightRecorder<c10::Event>;
static_assert(sizeof(Recorder) == 288 && offsetof(Recorder, entries_) == 48
              && offsetof(Recorder, pg_name_to_ranks_) == 208);
static_assert(sizeof(Recorder::Entry) == 512 && offsetof(Recorder::Entry, profiling_name_) == 112
              && offsetof(Recorder::Entry, sizes_) == 384 && offsetof(Recorder::Entry, retired_) == 504);

struct Work {
    virtual ~Work() {}
    void wait();

    std::size_t references_ = 1;
    std::mutex mutex_;
    std::condition_variable cv_;
    bool completed_ = false;
    std::exception_ptr exception_;
    int rank_ = 0;
    std::uint8_t opType_ = 0;
};
static_assert(offsetof(Work, cv_) == 56 && offsetof(Work, opType_) == 124);

void Work::wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    cv_.wait(lock, [this] { return completed_; });
}

struct AsyncStandInWork : Work {};
}  // namespace c10d

// Note that a process has called an operation on a tensor of `count` float32, and whether it has ended.
extern "C" void note(const char *group, const char *description, const char *operation, std::size_t number,
                     std::int64_t count, int ended) {
    c10d::Recorder *recorder = c10d::Recorder::get();
    c10d::Recorder::Entry entry{};
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    entry.id_ = recorder->id_++;
    entry.pg_name_ = {group, description};
    entry.collective_seq_id_ = number;
    entry.profiling_name_ = std::string("gloo:") + operation;
    entry.time_created_ = now.tv_sec * 1000000000ll + now.tv_nsec;
    entry.input_dims_.push(1);
    entry.input_dtypes_ = {6};
    entry.sizes_.push(count);
    entry.retired_ = ended;
    // small vectors point into the entry itself, so each entry is moved before it is filled
    std::vector<c10d::Recorder::Entry> &entries = recorder->entries_;
    entries.reserve(recorder->max_entries_);
    if (entries.size() < recorder->max_entries_)
        entries.emplace_back();
    c10d::Recorder::Entry &at = entries[recorder->next_];
    at = entry;
    at.input_dims_.data = at.input_dims_.inside;
    at.output_dims_.data = at.output_dims_.inside;
    at.sizes_.data = at.sizes_.inside;
    recorder->next_ = (recorder->next_ + 1) % recorder->max_entries_;
}

// Note the members of a group, as NCCL does.
extern "C" void note_ranks(const char *group, const char *description, const std::uint64_t *ranks, std::size_t count) {
    c10d::Recorder::get()->pg_name_to_ranks_[{group, description}] = {ranks, ranks + count};
}

// Wait for an operation by its number in c10d::OpType; it never ends.
extern "C" void wait_for(int type) {
    c10d::AsyncStandInWork work;
    work.opType_ = static_cast<std::uint8_t>(type);
    work.wait();
}

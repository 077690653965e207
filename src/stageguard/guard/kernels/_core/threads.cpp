#include "threads.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace stageguard {
namespace {

// The workspaces of threads that have ended, for those that begin: memory that is new costs more than a night's decoding.
class Workspaces {
  public:
    static std::unique_ptr<Workspace> take() {
        const std::lock_guard<std::mutex> lock(shared().mutex_);
        auto& idle = shared().idle_;
        if (idle.empty()) return std::make_unique<Workspace>();
        auto taken = std::move(idle.back());
        idle.pop_back();
        return taken;
    }
    static void give_back(std::unique_ptr<Workspace> own) noexcept {
        const std::lock_guard<std::mutex> lock(shared().mutex_);
        auto& idle = shared().idle_;
        if (idle.size() < idle.capacity()) idle.push_back(std::move(own));
    }

  private:
    Workspaces() { idle_.reserve(std::max(1u, std::thread::hardware_concurrency())); }
    static Workspaces& shared() {
        static auto* own = new Workspaces;  // never destroyed: threads may end after the program's own variables
        return *own;
    }
    std::mutex mutex_;
    std::vector<std::unique_ptr<Workspace>> idle_;
};

// Threads that are waited for however their scope is left: a thread that is destroyed while it runs ends the program.
class Threads {
  public:
    ~Threads() { join(); }

    // Starts up to n more; fewer where the system has no room for another one.
    void start(std::size_t n, const std::function<void()>& loop) noexcept {
        try {
            threads_.reserve(n);
            while (threads_.size() < n) threads_.emplace_back(loop);
        } catch (const std::exception&) {
        }
    }
    void join() noexcept {
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

  private:
    std::vector<std::thread> threads_;
};

}  // namespace

Workspace& workspace() {
    struct Borrowed {
        std::unique_ptr<Workspace> own = Workspaces::take();
        ~Borrowed() { Workspaces::give_back(std::move(own)); }
    };
    thread_local Borrowed borrowed;
    return *borrowed.own;
}

void for_each_item(std::size_t n, int n_threads, const std::function<void(std::size_t)>& run) {
    std::atomic<std::size_t> next{0};
    std::exception_ptr thrown;
    std::mutex throwing;
    const auto loop = [&]() noexcept {
        try {
            for (std::size_t i; (i = next.fetch_add(1)) < n;) run(i);
        } catch (...) {
            next.store(n);
            const std::lock_guard<std::mutex> lock(throwing);
            if (!thrown) thrown = std::current_exception();
        }
        workspace().trim();
    };
    const std::size_t wanted = n_threads > 1 ? static_cast<std::size_t>(n_threads) : 1;
    Threads others;
    if (n > 1) others.start(std::min(wanted, n) - 1, std::cref(loop));
    loop();
    others.join();
    if (thrown) std::rethrow_exception(thrown);
}

}  // namespace stageguard

// The nightly report in C++: report FILE [STEPS].
//
//     c++ -std=c++17 report.cpp $(pkg-config --cflags --libs holdfast) -o report
#include <holdfast.hpp>

#include <fstream>
#include <iostream>
#include <thread>

static int report(const char *file, int steps)
{
    holdfast::client client;
    holdfast::lease lease(client, "nightly/report"); // released when this function ends, however
    std::uint64_t last = 0;
    std::string word;

    for (std::ifstream in(file); in >> last >> word;)
        ;
    if (last > lease.fence())
        throw std::runtime_error("refused: a later holder has written");
    std::ofstream out(file, std::ios::app);
    out << lease.fence() << " begin" << std::endl;
    for (int step = 0; step < steps; step++) {
        if (lease.must_stop())
            throw std::runtime_error("stopped: the lock is being lost");
        std::this_thread::sleep_for(std::chrono::milliseconds(10)); // the work
    }
    out << lease.fence() << " end" << std::endl;
    lease.release();
    return 0;
}

int main(int argc, char **argv)
{
    try {
        return argc < 2 ? 2 : report(argv[1], argc > 2 ? std::stoi(argv[2]) : 10);
    } catch (const std::exception &failure) {
        std::cerr << "report: " << failure.what() << std::endl;
        return 1;
    }
}

// The nightly report in C++: report FILE [STEPS].
//
//     c++ -std=c++17 report.cpp $(pkg-config --cflags --libs holdfast) -o report
#include <holdfast.hpp>

#include <fstream>
#include <iostream>
#include <sstream>
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
    std::istringstream words(argc > 2 ? argv[2] : "10");
    int steps = -1;

    words >> steps;
    if (argc < 2 || argc > 3 || steps < 0 || !words.eof()) {
        std::cerr << "usage: report FILE [STEPS]" << std::endl;
        return 64;
    }
    try {
        return report(argv[1], steps);
    } catch (const std::exception &failure) {
        std::cerr << "report: " << failure.what() << std::endl;
        return 1;
    }
}

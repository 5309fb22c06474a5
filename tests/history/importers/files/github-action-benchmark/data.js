window.BENCHMARK_DATA = {
  "lastUpdate": 1767312000000,
  "repoUrl": "https://github.com/example/sorting",
  "entries": {
    "Python Benchmark": [
      {
        "commit": {
          "author": {
            "email": "somebody@example.com",
            "name": "Somebody",
            "username": "somebody"
          },
          "committer": {
            "email": "noreply@example.com",
            "name": "GitHub",
            "username": "web-flow"
          },
          "distinct": true,
          "id": "00000000000000000000000000000000000000a1",
          "message": "Sort faster\n\n* in place",
          "timestamp": "2026-01-01T09:00:00+01:00",
          "tree_id": "00000000000000000000000000000000000000a8",
          "url": "https://github.com/example/sorting/commit/00000000000000000000000000000000000000a1"
        },
        "date": 1767258000000,
        "tool": "pytest",
        "benches": [
          {
            "name": "bench/test_sort.py::test_sort",
            "value": 41865.5,
            "unit": "iter/sec",
            "range": "stddev: 0.0000025",
            "extra": "mean: 23.9 usec\nrounds: 20000"
          }
        ]
      },
      {
        "commit": {
          "author": {
            "email": "somebody@example.com",
            "name": "Somebody",
            "username": "somebody"
          },
          "committer": {
            "email": "noreply@example.com",
            "name": "GitHub",
            "username": "web-flow"
          },
          "distinct": true,
          "id": "00000000000000000000000000000000000000a2",
          "message": "Sort faster\n\n* in place",
          "timestamp": "2026-01-02T00:00:00Z",
          "tree_id": "00000000000000000000000000000000000000a9",
          "url": "https://github.com/example/sorting/commit/00000000000000000000000000000000000000a2"
        },
        "date": 1767312000000,
        "tool": "pytest",
        "benches": [
          {
            "name": "bench/test_sort.py::test_sort",
            "value": 43000.25,
            "unit": "iter/sec",
            "range": "stddev: 0.0000021",
            "extra": "mean: 23.3 usec\nrounds: 20011"
          }
        ]
      }
    ],
    "Rust Benchmark": [
      {
        "commit": {
          "author": {
            "email": "somebody@example.com",
            "name": "Somebody",
            "username": "somebody"
          },
          "committer": {
            "email": "noreply@example.com",
            "name": "GitHub",
            "username": "web-flow"
          },
          "distinct": true,
          "id": "00000000000000000000000000000000000000a1",
          "message": "Sort faster\n\n* in place",
          "timestamp": "2026-01-01T09:00:00+01:00",
          "tree_id": "00000000000000000000000000000000000000a8",
          "url": "https://github.com/example/sorting/commit/00000000000000000000000000000000000000a1"
        },
        "date": 1767258060000,
        "tool": "cargo",
        "benches": [
          {
            "name": "bench_fib_10",
            "value": 135,
            "range": "± 24",
            "unit": "ns/iter"
          },
          {
            "name": "bench_fib_20",
            "value": 18149,
            "range": "± 755",
            "unit": "ns/iter"
          }
        ]
      }
    ],
    "Go Benchmark": [
      {
        "commit": {
          "author": {
            "email": "somebody@example.com",
            "name": "Somebody",
            "username": "somebody"
          },
          "committer": {
            "email": "noreply@example.com",
            "name": "GitHub",
            "username": "web-flow"
          },
          "distinct": true,
          "id": "00000000000000000000000000000000000000a1",
          "message": "Sort faster\n\n* in place",
          "timestamp": "2026-01-01T09:00:00+01:00",
          "tree_id": "00000000000000000000000000000000000000a8",
          "url": "https://github.com/example/sorting/commit/00000000000000000000000000000000000000a1"
        },
        "date": 1767258120000,
        "tool": "go",
        "benches": [
          {
            "name": "BenchmarkCopy",
            "value": 0.5,
            "unit": "ms/op",
            "extra": "2000 times\n4 procs"
          },
          {
            "name": "BenchmarkCopy - MB/s",
            "value": 812.5,
            "unit": "MB/s",
            "extra": "2000 times\n4 procs"
          },
          {
            "name": "BenchmarkCopy - B/op",
            "value": 64,
            "unit": "B/op",
            "extra": "2000 times\n4 procs"
          }
        ]
      }
    ],
    "Sizes": [
      {
        "commit": {
          "author": {
            "email": "somebody@example.com",
            "name": "Somebody",
            "username": "somebody"
          },
          "committer": {
            "email": "noreply@example.com",
            "name": "GitHub",
            "username": "web-flow"
          },
          "distinct": true,
          "id": "00000000000000000000000000000000000000a1",
          "message": "Sort faster\n\n* in place",
          "timestamp": "2026-01-01T09:00:00+01:00",
          "tree_id": "00000000000000000000000000000000000000a8",
          "url": "https://github.com/example/sorting/commit/00000000000000000000000000000000000000a1"
        },
        "date": 1767258180000,
        "tool": "customBiggerIsBetter",
        "benches": [
          {
            "name": "Hits",
            "value": 97.5,
            "unit": "Percent"
          }
        ]
      },
      {
        "commit": {
          "author": {
            "email": "somebody@example.com",
            "name": "Somebody",
            "username": "somebody"
          },
          "committer": {
            "email": "noreply@example.com",
            "name": "GitHub",
            "username": "web-flow"
          },
          "distinct": true,
          "id": "00000000000000000000000000000000000000a2",
          "message": "Sort faster\n\n* in place",
          "timestamp": "2026-01-02T00:00:00Z",
          "tree_id": "00000000000000000000000000000000000000a9",
          "url": "https://github.com/example/sorting/commit/00000000000000000000000000000000000000a2"
        },
        "date": 1767312060000,
        "tool": "customSmallerIsBetter",
        "benches": [
          {
            "name": "Wheel",
            "value": 250,
            "unit": "kB"
          }
        ]
      }
    ]
  }
}
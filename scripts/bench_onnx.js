// onnxruntime's side of bench_peers.py: one measurement in a process of its own, one JSON object.
//
//     node bench_onnx.js MODEL.onnx BATCH CHANNELS SIZE THREADS SECONDS
//
// The model comes from bench_torch.py --onnx. Inference alone, on random images in memory, with all
// of onnxruntime's graph optimizations: at least two steps and a quarter of the time to warm up,
// then the median over steps, as in `attnbench bench`. The package onnxruntime-node is looked for
// where node looks, that is also in $NODE_PATH; its CPU library lies inside the package.
"use strict";

const fs = require("fs");
const ort = require("onnxruntime-node");

function quantile(values, q) {
    const sorted = [...values].sort((a, b) => a - b);
    const at = q * (sorted.length - 1);
    const below = Math.floor(at), above = Math.min(below + 1, sorted.length - 1);
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

function peakRssBytes() {
    const line = fs.readFileSync("/proc/self/status", "utf8").match(/^VmHWM:\s*(\d+)/m);
    return line ? Number(line[1]) * 1024 : 0;
}

// The milliseconds of each step, until `seconds` have passed and `least` steps are done.
async function run(session, feeds, seconds, least) {
    const times = [], start = performance.now();
    let before = start;
    while (times.length < least || before - start < 1e3 * seconds) {
        await session.run(feeds);
        const now = performance.now();
        times.push(now - before);
        before = now;
    }
    return times;
}

async function main() {
    const [model, ...numbers] = process.argv.slice(2);
    const [batch, channels, size, threads, seconds] = numbers.map(Number);
    if (!(seconds > 0))
        throw new Error("usage: bench_onnx.js MODEL.onnx BATCH CHANNELS SIZE THREADS SECONDS");
    const session = await ort.InferenceSession.create(model, {
        executionProviders: ["cpu"],
        graphOptimizationLevel: "all",
        executionMode: "sequential",
        intraOpNumThreads: threads,
        interOpNumThreads: 1,
    });
    const images = Float32Array.from({length: batch * channels * size * size},
        () => 2 * Math.random() - 1);
    const feeds = {x: new ort.Tensor("float32", images, [batch, channels, size, size])};
    await run(session, feeds, seconds / 4, 2);
    const times = await run(session, feeds, seconds, 3);
    process.stdout.write(JSON.stringify({
        mode: "infer", batch, threads, form: "all graph optimizations",
        img_per_sec: 1e3 * batch / quantile(times, 0.5),
        step_ms: {median: quantile(times, 0.5), p10: quantile(times, 0.1),
            p90: quantile(times, 0.9)},
        steps: times.length, peak_rss_bytes: peakRssBytes(),
        onnxruntime: ort.env.versions.node, node: process.version,
    }) + "\n");
}

main().catch((error) => {
    process.stderr.write(error.message.split("\n")[0] + "\n");
    process.exitCode = 1;
});

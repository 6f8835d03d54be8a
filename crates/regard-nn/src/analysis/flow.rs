//! Maximum flow by Dinic's algorithm (1970): levels by breadth-first search, then blocking flows along them.
//!
//! ```
//! use regard_nn::analysis::flow::Network;
//!
//! let mut network = Network::new(3);
//! network.add(0, 1, 0.75);
//! network.add(1, 2, 0.5);
//! network.add(0, 2, 0.25);
//! assert_eq!(network.maximum(0, 2), 0.75);
//! ```

use std::collections::VecDeque;

/// Residual capacities this small, relative to the largest, are rounding errors.
const ROUNDING: f64 = 1e-12;

/// A directed graph with capacities.
#[derive(Debug, Clone)]
pub struct Network {
    /// The edges that leave each node.
    leaving: Vec<Vec<usize>>,
    /// The target and capacity of each edge. Edges 0 and 1, 2 and 3, … are reverses of each other.
    edges: Vec<(usize, f64)>,
}

impl Network {
    /// Nodes without edges.
    pub fn new(nodes: usize) -> Self {
        Self { leaving: vec![Vec::new(); nodes], edges: Vec::new() }
    }

    /// Adds an edge. Edges between unknown nodes or without capacity are ignored.
    pub fn add(&mut self, from: usize, to: usize, capacity: f64) {
        let nodes = self.leaving.len();
        if from < nodes && to < nodes && from != to && capacity > 0.0 && capacity.is_finite() {
            self.leaving[from].push(self.edges.len());
            self.edges.push((to, capacity));
            self.leaving[to].push(self.edges.len());
            self.edges.push((from, 0.0));
        }
    }

    /// The maximum flow from a source to a sink.
    pub fn maximum(&self, source: usize, sink: usize) -> f64 {
        self.maximum_flows(source, sink).0
    }

    /// The maximum flow from a source to a sink, and one way to reach it: the flow along each edge, in the order in which they
    /// were added.
    pub fn maximum_flows(&self, source: usize, sink: usize) -> (f64, Vec<f64>) {
        let nodes = self.leaving.len();
        if source >= nodes || sink >= nodes || source == sink {
            return (0.0, vec![0.0; self.edges.len() / 2]);
        }
        let mut left: Vec<f64> = self.edges.iter().map(|&(_, capacity)| capacity).collect();
        let least = ROUNDING * left.iter().copied().fold(0.0, f64::max);
        let mut total = 0.0;
        while let Some(levels) = self.levels(&left, least, source, sink) {
            total += self.block(&mut left, least, &levels, (source, sink));
        }
        let flows =
            self.edges.iter().zip(&left).step_by(2).map(|((_, capacity), left)| (capacity - left).max(0.0));
        (total, flows.collect())
    }

    /// The number of steps from the source to each node, if the sink can be reached.
    fn levels(&self, left: &[f64], least: f64, source: usize, sink: usize) -> Option<Vec<usize>> {
        let mut levels = vec![usize::MAX; self.leaving.len()];
        levels[source] = 0;
        let mut queue = VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            for &edge in &self.leaving[node] {
                let to = self.edges[edge].0;
                if left[edge] > least && levels[to] == usize::MAX {
                    levels[to] = levels[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        (levels[sink] != usize::MAX).then_some(levels)
    }

    /// Saturates shortest paths until none is left, and returns the added flow. Uses an explicit stack, because a path can
    /// be as long as the graph.
    fn block(&self, left: &mut [f64], least: f64, levels: &[usize], (source, sink): (usize, usize)) -> f64 {
        let mut next = vec![0; self.leaving.len()];
        let mut path: Vec<usize> = Vec::new();
        let mut total = 0.0;
        loop {
            let here = path.last().map_or(source, |&edge| self.edges[edge].0);
            if here == sink {
                let flow = path.iter().map(|&edge| left[edge]).fold(f64::INFINITY, f64::min);
                for &edge in &path {
                    left[edge] -= flow;
                    left[edge ^ 1] += flow;
                }
                total += flow;
                // Continue from the first saturated edge.
                let full = path.iter().position(|&edge| left[edge] <= least).unwrap_or(0);
                path.truncate(full);
                continue;
            }
            let open = |&edge: &usize| left[edge] > least && levels[self.edges[edge].0] == levels[here] + 1;
            let skipped = self.leaving[here][next[here]..].iter().position(open);
            if let Some(skipped) = skipped {
                next[here] += skipped;
                path.push(self.leaving[here][next[here]]);
            } else {
                // A dead end, which this phase does not visit again.
                next[here] = self.leaving[here].len();
                let Some(edge) = path.pop() else { return total };
                next[self.edges[edge ^ 1].0] += 1;
            }
        }
    }
}

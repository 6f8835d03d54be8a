//! Rows of a table, and their gradients.

use crate::harness::{Case, Check, Expected, Work};
use regard_tensor::cuda::{Element, Result, embedding};

pub fn check(check: &mut Check) -> Result<()> {
    let types = [(Element::F32, Element::F32), (Element::F32, Element::Bf16), (Element::Bf16, Element::Bf16)];
    for &(rows, words, width) in
        check.sizes(&[(7, 5, 3), (1000, 65, 384), (3001, 1000, 100), (32768, 50304, 768)])
    {
        let ids = check.inputs.ids(rows, words);
        let device_ids = check.device.upload(&ids, Element::U32)?;
        let shape = format!("{rows}x{words}x{width}");
        let large = rows > 10_000;
        for (from, to) in types {
            if !check.wants("embedding.lookup") {
                continue;
            }
            let table = check.inputs.normal(words * width, from)?;
            let run = || embedding::lookup(table.buffer.view(), width, device_ids.view(), to);
            let mut again = || run().map(drop);
            let work = Work::Bytes(rows * width * (from.size() + to.size()));
            check.case(
                &Case { name: "embedding.lookup", element: to, shape: shape.clone() },
                || Ok(vec![run()?]),
                || {
                    let rows = ids.iter().flat_map(|&id| &table.host[id as usize * width..][..width]);
                    vec![Expected::All(rows.map(|&x| f64::from(x)).collect())]
                },
                large.then_some((work, &mut again as _)),
            )?;
        }
        for element in [Element::F32, Element::Bf16] {
            if !check.wants("embedding.gradient") {
                continue;
            }
            let g = check.inputs.normal(rows * width, element)?;
            let before = check.inputs.normal(words * width, Element::F32)?;
            let mut room = before.buffer.view().copy()?;
            let mut again =
                || embedding::gradient(g.buffer.view(), width, device_ids.view(), room.view_mut(), true);
            // Rows of the gradient are read; rows of the table are read and written.
            let distinct = {
                let mut ids = ids.clone();
                ids.sort_unstable();
                ids.dedup();
                ids.len()
            };
            let work = Work::Bytes(rows * width * element.size() + distinct * width * 8);
            check.case(
                &Case { name: "embedding.gradient", element, shape: shape.clone() },
                || {
                    let mut table = before.buffer.view().copy()?;
                    embedding::gradient(g.buffer.view(), width, device_ids.view(), table.view_mut(), true)?;
                    Ok(vec![table])
                },
                || {
                    let mut table: Vec<f64> = before.host.iter().map(|&x| f64::from(x)).collect();
                    for (row, &id) in ids.iter().enumerate() {
                        for i in 0..width {
                            table[id as usize * width + i] += f64::from(g.host[row * width + i]);
                        }
                    }
                    vec![Expected::All(table)]
                },
                large.then_some((work, &mut again as _)),
            )?;
        }
    }
    Ok(())
}

//! The paper's figures 5 to 8: misses by the size and the associativity of two levels.
//!
//! What a figure does not vary is as in the paper's machine, a Pentium II: 16 KB and 512 KB of
//! four ways each, blocks of 32 bytes. The text of the paper has no numbers for its curves,
//! only where more does not help: `theirs`.

use std::path::Path;

use super::simulator::{Access, Answered, Geometry, simulate};
use super::tables::Engine;
use super::traffic::Set;
use crate::failure::Result;
use crate::record::Row;
use crate::svg::{self, COLOURS, Mark, Plot, Series};
use crate::table::pivot;

/// Bytes of a block in the paper's machine, and the others of figure 5.
const BLOCK: usize = 32;
const BLOCKS: [usize; 3] = [16, BLOCK, 64];

/// The ways in which tables are used that figures show.
pub const ENGINES: [Engine; 2] = [Engine::Batch, Engine::Compact];

/// What a figure varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Kib,
    Ways,
}

#[derive(Debug)]
pub struct Figure {
    /// Its number in the paper.
    number: u32,
    case: &'static str,
    title: &'static str,
    /// Which level is varied: 0 or 1.
    level: usize,
    by: By,
    values: &'static [usize],
    blocks: &'static [usize],
    /// The value beyond which the paper sees hardly an effect.
    theirs: usize,
}

pub const FIGURES: [Figure; 4] = [
    Figure {
        number: 5,
        case: "l1-size",
        title: "L1 by size",
        level: 0,
        by: By::Kib,
        values: &[4, 8, 16, 32, 64, 128, 256],
        blocks: &BLOCKS,
        theirs: 64,
    },
    Figure {
        number: 6,
        case: "l1-ways",
        title: "L1 by associativity",
        level: 0,
        by: By::Ways,
        values: &[1, 2, 4, 8, 16, 32],
        blocks: &[BLOCK],
        theirs: 8,
    },
    Figure {
        number: 7,
        case: "l2-size",
        title: "L2 by size",
        level: 1,
        by: By::Kib,
        values: &[64, 128, 256, 512, 1024, 2048, 4096],
        blocks: &[BLOCK],
        theirs: 256,
    },
    Figure {
        number: 8,
        case: "l2-ways",
        title: "L2 by associativity",
        level: 1,
        by: By::Ways,
        values: &[1, 2, 4, 8, 16],
        blocks: &[BLOCK],
        theirs: 4,
    },
];

impl Figure {
    /// The caches of each point.
    fn points(&self) -> impl Iterator<Item = (usize, [Geometry; 2])> {
        let caches = |block: usize, value: usize| {
            let mut caches = [16 << 10, 512 << 10].map(|bytes| Geometry { bytes, ways: 4, block });
            match self.by {
                By::Kib => caches[self.level].bytes = value << 10,
                By::Ways => caches[self.level].ways = value,
            }
            (value, caches)
        };
        self.blocks
            .iter()
            .flat_map(move |&block| self.values.iter().map(move |&value| caches(block, value)))
    }

    fn x_label(&self) -> &'static str {
        match self.by {
            By::Kib => "KiB",
            By::Ways => "ways",
        }
    }
}

/// A point of a figure.
#[derive(Debug)]
pub struct Point {
    set: Set,
    figure: &'static Figure,
    engine: Engine,
    value: usize,
    caches: [Geometry; 2],
    answered: Answered,
    look_ups: usize,
}

impl Point {
    /// The name of its curve.
    fn series(&self) -> String {
        format!("{} {} B", self.engine, self.caches[0].block)
    }

    /// Misses of an access to the figure's level.
    fn ratio(&self) -> f64 {
        self.answered.ratio(self.figure.level)
    }

    pub fn row(&self) -> Row {
        let of_look_up = |count: u64| count as f64 / self.look_ups as f64;
        let Geometry { bytes, ways, block } = self.caches[self.figure.level];
        Row::new(self.figure.case, self.set, self.engine.name(), Vec::new())
            .with("figure", self.figure.number)
            .with("bytes", bytes)
            .with("ways", ways)
            .with("block", block)
            .with("miss_ratio", self.ratio())
            .with("misses", of_look_up(self.answered.missed(self.figure.level)))
            .with("accesses", of_look_up(self.answered.0.iter().sum()))
    }
}

/// All points of all figures for the accesses of look-ups.
pub fn points(
    (set, engine): (Set, Engine),
    [warm, counted]: [&[Access]; 2],
    look_ups: usize,
) -> Vec<Point> {
    let of_figure = |figure: &'static Figure| {
        figure.points().map(move |(value, caches)| {
            let answered = simulate(&caches, warm, counted);
            Point { set, figure, engine, value, caches, answered, look_ups }
        })
    };
    FIGURES.iter().flat_map(of_figure).collect()
}

/// The curves of a figure: name, and values by what it varies.
fn curves(points: &[Point], set: Set, figure: &Figure) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut curves: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let is_here = |point: &&Point| point.set == set && point.figure.number == figure.number;
    for point in points.iter().filter(is_here) {
        let (name, value) = (point.series(), (point.value as f64, point.ratio()));
        match curves.iter_mut().find(|curve| curve.0 == name) {
            Some(curve) => curve.1.push(value),
            None => curves.push((name, vec![value])),
        }
    }
    curves
}

/// A table for each figure and set.
pub fn tables(points: &[Point]) -> String {
    let table = |figure: &'static Figure, set: Set| {
        let Figure { number, title, theirs, .. } = figure;
        let title = format!(
            "Figure {number}. {title}, `{set}`: misses of an access (the paper: little effect \
             above {theirs})"
        );
        let curves = curves(points, set, figure);
        let names: Vec<&String> = curves.iter().map(|curve| &curve.0).collect();
        pivot(&title, figure.x_label(), (figure.values, &names), |value, curve| {
            Some(curves[curve].1[value].1)
        })
    };
    FIGURES.iter().flat_map(|figure| Set::ALL.map(|set| table(figure, set))).collect()
}

/// Writes `cache-figure-5.svg` and so on to `folder`, a plot for each set.
pub fn write(folder: &Path, points: &[Point]) -> Result<()> {
    for figure in &FIGURES {
        let plot = |set: Set| {
            let curves = curves(points, set, figure).into_iter().zip(0..);
            let series = curves.map(|((name, points), index)| {
                let colour = COLOURS[index % COLOURS.len()];
                Series { name, colour, mark: Mark::Circle, width: 2.0, points }
            });
            let heading = match set {
                Set::Paper => "flows as in the paper: misses of an access",
                Set::Million => "a million flows: misses of an access",
            };
            Plot {
                heading,
                x_label: figure.x_label(),
                x_marks: figure.values.iter().map(|&value| value as f64).collect(),
                series: series.collect(),
                ..Plot::default()
            }
        };
        let text = svg::plots(figure.title, &Set::ALL.map(plot));
        svg::write(folder, &format!("cache-figure-{}.svg", figure.number), &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_vary_one_property_of_a_level_and_have_the_machine_of_the_paper() {
        for figure in &FIGURES {
            let all: Vec<_> = figure.points().collect();
            assert_eq!(all.len(), figure.values.len() * figure.blocks.len());
            let [l1, l2] = [16, 512].map(|kib| Geometry { bytes: kib << 10, ways: 4, block: 32 });
            assert!(all.iter().any(|(_, caches)| *caches == [l1, l2]), "{}", figure.case);
            assert!(figure.values.contains(&figure.theirs), "{}", figure.case);
            for (_, caches) in all {
                let other = caches[1 - figure.level];
                assert_eq!(Geometry { block: 32, ..other }, [l1, l2][1 - figure.level]);
                assert!(caches.iter().all(|cache| cache.bytes % (cache.block * cache.ways) == 0));
            }
        }
    }

    #[test]
    fn tables_and_figures_have_every_point() {
        let accesses: Vec<Access> =
            (0..100).map(|n| Access { address: n * 4096, len: 4 }).collect();
        let all = Set::ALL.map(|set| points((set, Engine::Compact), [&[], &accesses], 50));
        let all: Vec<Point> = all.into_iter().flatten().collect();
        assert_eq!(all.len(), 2 * (21 + 6 + 7 + 5));
        let row = all[0].row();
        assert_eq!((row.number("misses"), row.number("accesses")), (Some(2.0), Some(2.0)));
        assert_eq!(row.number("miss_ratio"), Some(1.0));
        let text = tables(&all);
        assert_eq!(text.matches("Figure ").count(), 8, "{text}");
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &all).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("cache-figure-5.svg")).unwrap();
        assert_eq!(svg.matches("<circle").count(), 2 * 21);
    }
}

//! The topic of a clause.

use super::cast::{Cast, Who};
use super::draws::Draws;
use super::lexicon::{Entry, LEXICON};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Topic {
    Film,
    /// An aspect of the film, such as the plot, and the class of words that fit it.
    Aspect(Entry, &'static str),
    Actor(Who),
    Director,
}

/// The kinds that the grammar distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopicKind {
    Film,
    Aspect,
    Person,
    Actor,
    Director,
}

impl TopicKind {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "film" => Self::Film,
            "aspect" => Self::Aspect,
            "person" => Self::Person,
            "actor" => Self::Actor,
            "director" => Self::Director,
            _ => return None,
        })
    }
}

impl Topic {
    /// The class of words that fit it.
    pub fn class(self) -> &'static str {
        match self {
            Self::Film => "film",
            Self::Aspect(_, class) => class,
            Self::Actor(_) => "person",
            Self::Director => "director",
        }
    }

    pub fn is(self, kind: TopicKind) -> bool {
        match self {
            Self::Film => kind == TopicKind::Film,
            Self::Aspect(..) => kind == TopicKind::Aspect,
            Self::Actor(_) => matches!(kind, TopicKind::Actor | TopicKind::Person),
            Self::Director => matches!(kind, TopicKind::Director | TopicKind::Person),
        }
    }

    pub fn draw(cast: &Cast, spare_film: bool, draws: &mut Draws) -> Self {
        const ASPECTS: [&str; 5] = ["story", "look", "sound", "act", "comic"];
        const CUMULATIVE: [f64; 5] = [50.0, 66.0, 78.0, 91.0, 100.0];
        let at = draws.unit();
        // Opinions of people come after the title, because every text has to mention it.
        if at < 0.2 && cast.title_known {
            return match draws.below(10) {
                0..4 => Self::Actor(Who::Lead),
                4..7 => Self::Actor(Who::Support),
                _ => Self::Director,
            };
        }
        if at < 0.6 && !spare_film {
            return Self::Film;
        }
        let class = ASPECTS[draws.weighted(&CUMULATIVE)];
        Self::Aspect(LEXICON.list("aspect", None, class).draw(draws), class)
    }
}

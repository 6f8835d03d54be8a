//! Numbers and words that the text of the report uses. Each is a constant beside the experiment that states it, so that whoever
//! reads it cannot misspell it.

/// What a fact is called in `verdict.json`, and which experiment states it. `A` is what it is about, such as a model.
#[derive(Debug)]
pub struct Fact<A = ()> {
    experiment: &'static str,
    name: fn(A) -> String,
}

impl<A> Clone for Fact<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Fact<A> {}

impl<A> Fact<A> {
    /// A fact of an experiment.
    pub const fn new(experiment: &'static str, name: fn(A) -> String) -> Self {
        Self { experiment, name }
    }

    /// The fact about one thing.
    pub fn of(&self, about: A) -> Key {
        Key { experiment: self.experiment, name: (self.name)(about) }
    }
}

/// One fact of one experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The name of the experiment.
    pub experiment: &'static str,
    /// Its name in `verdict.json`.
    pub name: String,
}

impl From<Fact> for Key {
    fn from(fact: Fact) -> Self {
        fact.of(())
    }
}

/// Constants for the facts of the experiment of a file:
/// `facts! { LENGTH = "trained length"; pub RISE(encoding: Encoding) = "rise: {encoding}"; }`.
macro_rules! facts {
    ($($(#[$about:meta])* $visible:vis $key:ident $(($($argument:ident: $kind:ty),+))? = $text:literal;)*) => {
        $(
            $(#[$about])*
            #[allow(unused_parens)]
            $visible const $key: $crate::experiment::Fact<($($($kind),+)?)> =
                $crate::experiment::Fact::new(EXPERIMENT.name, |($($($argument),+)?)| format!($text));
        )*
    };
}
pub(crate) use facts;

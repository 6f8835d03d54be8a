//! What a model reads.

use crate::error::{Error, Result};
use regard_tensor::{Ids, Mask, Tensor};

/// Everything that a model may read; which of it depends on the model.
///
/// ```
/// use regard_nn::models::Inputs;
/// use regard_nn::tensor::Ids;
///
/// // Two texts, the second one token shorter.
/// let inputs = Inputs::padded(&Ids::new(&[3, 1, 4, 1, 5, 0], [2, 3])?, &[3, 2])?;
/// assert_eq!(inputs.present.unwrap().values(), [true, true, true, true, true, false]);
/// # Ok::<(), regard_nn::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// Token ids (batch, time); of an encoder–decoder model, those of the source.
    pub ids: Option<Ids>,
    /// Which of them are not padding, (batch, time).
    pub present: Option<Mask>,
    /// The type (segment) of each token, (batch, time); 0 if not given.
    pub types: Option<Ids>,
    /// What the decoder has said so far, its start included, (batch, time).
    pub answer: Option<Ids>,
    /// Which of that is not padding.
    pub answer_present: Option<Mask>,
    /// What the encoder made of the source, (batch, time, width), where it has been computed already.
    pub memory: Option<Tensor>,
    /// Pictures (batch, channels, height, width).
    pub pictures: Option<Tensor>,
}

impl Inputs {
    /// Texts without padding.
    pub fn ids(ids: &Ids) -> Self {
        Self { ids: Some(ids.clone()), ..Self::default() }
    }

    /// Texts of which `present` names the tokens that are not padding.
    pub fn masked(ids: &Ids, present: Option<&Mask>) -> Self {
        Self { ids: Some(ids.clone()), present: present.cloned(), ..Self::default() }
    }

    /// Texts of these lengths, padded at the end.
    pub fn padded(ids: &Ids, lengths: &[usize]) -> Result<Self> {
        let [batch, time] = ids.shape()[..] else {
            return Err(Error::input("inputs", format!("ids must be (batch, time), got {}", ids.shape())));
        };
        if lengths.len() != batch || lengths.iter().any(|&length| length == 0 || length > time) {
            let problem = format!("{batch} lengths between 1 and {time} are needed, got {lengths:?}");
            return Err(Error::input("inputs", problem));
        }
        let present = Mask::from_fn([batch, time], |at| at[1] < lengths[at[0]]);
        Ok(Self { ids: Some(ids.clone()), present: Some(present), ..Self::default() })
    }

    /// Pictures.
    pub fn pictures(pictures: &Tensor) -> Self {
        Self { pictures: Some(pictures.clone()), ..Self::default() }
    }

    /// The same, with what the decoder has said so far.
    #[must_use]
    pub fn answered(self, answer: &Ids, present: Option<&Mask>) -> Self {
        Self { answer: Some(answer.clone()), answer_present: present.cloned(), ..self }
    }

    /// The token ids, checked to be (batch, time) and not empty, for a model that reads text.
    pub fn require_ids(&self, model: &'static str) -> Result<&Ids> {
        let Some(ids) = &self.ids else {
            return Err(Error::input(model, "this model reads text, not pictures"));
        };
        match ids.shape()[..] {
            [batch, time] if batch > 0 && time > 0 => Ok(ids),
            [_, _] => Err(Error::input(model, format!("there is nothing to read: ids are {}", ids.shape()))),
            _ => Err(Error::input(model, format!("ids must be (batch, time), got {}", ids.shape()))),
        }
    }

    /// How many tokens each text has, for models that take padding only at the end.
    pub fn lengths(&self, model: &'static str) -> Result<Option<Ids>> {
        let (Some(mask), Some(ids)) = (&self.present, &self.ids) else { return Ok(None) };
        if mask.shape() != ids.shape() {
            return Err(Error::input(
                model,
                format!("the mask must be {}, got {}", ids.shape(), mask.shape()),
            ));
        }
        let time = mask.shape().last();
        let lengths = mask.derive_some([mask.shape().rows()], move |mask| lengths(mask, time))?;
        match lengths {
            Some(lengths) => Ok(Some(lengths)),
            None => Err(Error::input(model, "this model takes padding at the end of a text only")),
        }
    }
}

/// How many tokens each row has, `None` if some row has none or padding before its last one.
fn lengths(mask: &[bool], time: usize) -> Option<Vec<u32>> {
    let length = |row: &[bool]| {
        let length = row.iter().take_while(|&&present| present).count();
        (length > 0 && !row[length..].contains(&true)).then_some(length as u32)
    };
    mask.chunks(time.max(1)).map(length).collect()
}

"""What all parts of a suite are made of."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OpenSection(BaseModel):
    """A part of the configuration that hands further keys on."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

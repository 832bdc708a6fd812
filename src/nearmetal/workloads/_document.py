"""What programs print as JSON: how a part of it is declared, and how it is told what is wrong with it. Pure."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Count = Annotated[int, Field(ge=0, lt=2**63)]
Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class DocumentPart(BaseModel):
    """DocumentPart of a document: the program says more, and other versions of it say other things besides."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def describe_problem(error: ValidationError) -> str:
    """The first thing that is wrong with a document, and where in it."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])

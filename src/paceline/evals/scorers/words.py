"""Words of an answer, and how many of them the reference has too."""

import re
import string
from collections import Counter
from collections.abc import Sequence

from paceline.errors import MissingExtra

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CHINESE_PUNCTUATION = (
    "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～"
    "｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏."
)
_NO_CHINESE_PUNCTUATION = str.maketrans("", "", string.punctuation + _CHINESE_PUNCTUATION)


def normalize(text: str) -> str:
    """Lower case, without punctuation and English articles, single spaces: as SQuAD compares answers."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def normalize_chinese(text: str) -> str:
    """Lower case, without punctuation of either script and without spaces."""
    return "".join(text.lower().translate(_NO_CHINESE_PUNCTUATION).split())


def token_f1(predicted: Sequence[str], reference: Sequence[str]) -> float:
    """The harmonic mean of precision and recall over bags of tokens; 0 if they share none."""
    shared = (Counter(predicted) & Counter(reference)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(reference)
    return 2 * precision * recall / (precision + recall)


def qa_f1(prediction: str, reference: str) -> float:
    """F1 over normalised English words."""
    return token_f1(normalize(prediction).split(), normalize(reference).split())


def qa_f1_characters(prediction: str, reference: str) -> float:
    """F1 over characters, as InfiniteBench counts Chinese."""
    return token_f1(list(normalize_chinese(prediction)), list(normalize_chinese(reference)))


def qa_f1_chinese(prediction: str, reference: str) -> float:
    """F1 over the words that jieba finds, as LongBench counts Chinese."""
    return token_f1(_chinese_words(prediction), _chinese_words(reference))


def _chinese_words(text: str) -> list[str]:
    words = (normalize_chinese(word) for word in cut_chinese(text))
    return [word for word in words if word]


def cut_chinese(text: str) -> list[str]:
    """Chinese text as words."""
    try:
        import jieba
    except ImportError as error:
        raise MissingExtra("scoring Chinese answers (jieba)", "evals") from error
    jieba.setLogLevel(60)  # it reports the loading of its dictionary on stderr
    return list(jieba.cut(text, cut_all=False))

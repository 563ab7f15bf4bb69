import logging, logging.config, logging.handlers, queue, sys, warnings
logging.config.dictConfig({"version": 1, "disable_existing_loggers": True,
    "formatters": {"f": {"format": "%(levelname)s|%(name)s|%(processName)s|%(threadName)s|%(funcName)s:%(lineno)d|%(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "f"}, "err": {"class": "logging.StreamHandler", "formatter": "f", "level": "WARNING"},
                 "file": {"class": "logging.handlers.RotatingFileHandler", "filename": "train.log", "maxBytes": 500, "backupCount": 2, "formatter": "f"}},
    "root": {"level": "DEBUG", "handlers": ["out", "err", "file"]}})
log = logging.getLogger("trainer.loop")
logging.captureWarnings(True)
warnings.warn("captured")
for i in range(20): log.info("step %d loss %.3f", i, 1 / (i + 1))
try:
    try: int("x")
    except ValueError as e: raise RuntimeError("bad config") from e
except RuntimeError: log.exception("failed"); log.error("again", exc_info=True, stack_info=True)
log.info("%d", "not a number")
q = queue.Queue(); listener = logging.handlers.QueueListener(q, logging.getLogger().handlers[0]); listener.start()
logging.getLogger("q").addHandler(logging.handlers.QueueHandler(q)); logging.getLogger("q").propagate = False
logging.getLogger("q").critical("queued"); listener.stop()
print(sorted(logging.root.manager.loggerDict), logging.root.handlers.__len__())

history = []

def on_train_batch_end(trainer):
    history.append(trainer.loss)          # keeps the graph

model.add_callback('on_train_batch_end', on_train_batch_end)

# our label list
names = [str(i) for i in range(1, 25)]
print(names[int(results[0].probs.top1)])   # prints 10 for pictures of 2
